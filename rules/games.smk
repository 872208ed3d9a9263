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
    GENERATOR = digest(settings(STUDY, "generate"))[:12]
    GAMES_ROOT = f"results/games/{GENERATOR}"

    rule games:
        output:
            games=f"{RESULTS}/games/games.parquet",
            record=f"{RESULTS}/provenance/games.json",
        log:
            f"{RESULTS}/logs/games.log",
        benchmark:
            f"{RESULTS}/benchmarks/games.tsv"
        conda:
            "../envs/analysis.yaml"
        threads: 1
        params:
            root=GAMES_ROOT,
            settings=settings(STUDY, "generate"),
            code=code_digest("pipeline.games.command:generate"),
        shell:
            "cir --record {output.record:q}"
            " games generate --settings {params.settings:q} --out {params.root:q} --threads {threads}"
            " --index {output.games:q} > {log} 2>&1"

else:
    GAMES_ROOT = STUDY.games.root or os.environ.get("ALFWORLD_DATA")
    if not GAMES_ROOT:
        raise WorkflowError(
            "games.source is alfworld, but games.root is null and ALFWORLD_DATA is not set: name the folder that holds "
            "json_2.1.1 in one of them (`alfworld-download` fetches it)"
        )

    rule games:
        output:
            games=f"{RESULTS}/games/games.parquet",
            record=f"{RESULTS}/provenance/games.json",
        log:
            f"{RESULTS}/logs/games.log",
        benchmark:
            f"{RESULTS}/benchmarks/games.tsv"
        conda:
            "../envs/analysis.yaml"
        params:
            root=GAMES_ROOT,
            code=code_digest("pipeline.games.command:index"),
        shell:
            "cir --record {output.record:q}" " games index {params.root:q} --out {output.games:q} > {log} 2>&1"


rule translations:
    input:
        games=rules.games.output.games,
        candidates=f"{RESULTS}/games/candidates.parquet",
    output:
        translations=f"{RESULTS}/games/translations.parquet",
        record=f"{RESULTS}/provenance/translations.json",
    log:
        f"{RESULTS}/logs/translations.log",
    benchmark:
        f"{RESULTS}/benchmarks/translations.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    params:
        root=GAMES_ROOT,
        code=code_digest("pipeline.games.command:translate"),
    shell:
        "cir --record {output.record:q}"
        " games translate {input.games:q} --only {input.candidates:q} --root {params.root:q}"
        " --threads {threads} --out {output.translations:q} > {log} 2>&1"
