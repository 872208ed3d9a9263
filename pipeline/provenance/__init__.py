"""What an artifact depends on, said so that Snakemake and an auditor can check it."""
