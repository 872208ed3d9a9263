"""
Stage 1, games: make or index them, translate those that a cohort may use.

REQUIRED INPUTS
    none for generated games; games.root or $ALFWORLD_DATA for the official ones
OUTPUTS
    results/<study>/games/games.parquet          one row a game, with its sha256
    results/<study>/games/translations.parquet   what the engine needs of each candidate's game, made once
"""

if STUDY.games.source == "generated":
    # Shared by studies with the same generator settings: a sensitivity plays the very same games.
    GAMES_ROOT = f"results/games/{digest(settings('generate'))[:12]}"

    rule games:
        output:
            games=f"{RESULTS}/games/games.parquet",
        params:
            root=GAMES_ROOT,
            settings=settings("generate"),
            code=code("games.command:generate"),
        threads: 1
        log:
            f"{RESULTS}/logs/games.log",
        benchmark:
            f"{RESULTS}/benchmarks/games.tsv"
        conda:
            "../envs/analysis.yaml"
        shell:
            "cir games generate --settings {params.settings:q} --out {params.root:q} --threads {threads}"
            " --index {output.games:q} > {log} 2>&1"

else:
    GAMES_ROOT = STUDY.games.root or os.environ.get("ALFWORLD_DATA", "")

    rule games:
        output:
            games=f"{RESULTS}/games/games.parquet",
        params:
            root=GAMES_ROOT,
            code=code("games.command:index"),
        log:
            f"{RESULTS}/logs/games.log",
        benchmark:
            f"{RESULTS}/benchmarks/games.tsv"
        conda:
            "../envs/analysis.yaml"
        shell:
            "cir games index {params.root:q} --out {output.games:q} > {log} 2>&1"


rule translations:
    input:
        games=rules.games.output.games,
        candidates=f"{RESULTS}/games/candidates.parquet",
    output:
        translations=f"{RESULTS}/games/translations.parquet",
    params:
        root=GAMES_ROOT,
        code=code("games.command:translate"),
    threads: 1
    log:
        f"{RESULTS}/logs/translations.log",
    benchmark:
        f"{RESULTS}/benchmarks/translations.tsv"
    conda:
        "../envs/analysis.yaml"
    shell:
        "cir games translate {input.games:q} --only {input.candidates:q} --root {params.root:q}"
        " --threads {threads} --out {output.translations:q} > {log} 2>&1"
