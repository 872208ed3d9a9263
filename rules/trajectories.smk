"""
Stage 2, trajectories: draw candidates, run them unaltered, settle the cohorts, and run one trunk a condition.

REQUIRED INPUTS
    results/<study>/games/games.parquet, translations.parquet
OUTPUTS
    results/<study>/games/candidates.parquet                                     who may be in which cohort, in order
    results/<study>/trajectories/cohort=C/factual.parquet                        unaltered runs of all candidates
    results/<study>/games/cohorts.parquet                                        who is in, and why the others are not
    results/<study>/trajectories/cohort=C/condition=E/trunk.parquet              altered at k, no recovery
"""


rule draw:
    input:
        games=rules.games.output.games,
    output:
        candidates=f"{RESULTS}/games/candidates.parquet",
        record=f"{RESULTS}/provenance/draw.json",
    log:
        f"{RESULTS}/logs/draw.log",
    benchmark:
        f"{RESULTS}/benchmarks/draw.tsv"
    conda:
        "../envs/analysis.yaml"
    params:
        settings=settings(STUDY, "draw"),
        code=code_digest("pipeline.trajectories.command:draw"),
    shell:
        "cir --record {output.record:q}"
        " cohorts draw --games {input.games:q} --settings {params.settings:q} --out {output.candidates:q} > {log} 2>&1"


rule factual:
    input:
        candidates=rules.draw.output.candidates,
        translations=rules.translations.output.translations,
    output:
        factual=f"{RESULTS}/trajectories/cohort={{cohort}}/factual.parquet",
        record=f"{RESULTS}/provenance/factual/{{cohort}}.json",
    log:
        f"{RESULTS}/logs/factual/{{cohort}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/factual/{{cohort}}.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    params:
        settings=settings(STUDY, "factual"),
        code=code_digest("pipeline.trajectories.command:factual", OTHER_AGENTS),
    shell:
        "cir --record {output.record:q}"
        " factual --cohort {wildcards.cohort} --candidates {input.candidates:q} --translations {input.translations:q}"
        " --settings {params.settings:q} --threads {threads} --out {output.factual:q} > {log} 2>&1"


rule settle:
    input:
        candidates=rules.draw.output.candidates,
        factual=expand(rules.factual.output.factual, cohort=COHORTS),
    output:
        cohorts=f"{RESULTS}/games/cohorts.parquet",
        record=f"{RESULTS}/provenance/settle.json",
    log:
        f"{RESULTS}/logs/settle.log",
    benchmark:
        f"{RESULTS}/benchmarks/settle.tsv"
    conda:
        "../envs/analysis.yaml"
    params:
        trajectories=lambda wildcards, input: Path(input.factual[0]).parents[1],
        settings=settings(STUDY, "settle"),
        code=code_digest("pipeline.trajectories.command:settle"),
    shell:
        "cir --record {output.record:q}"
        " cohorts settle --candidates {input.candidates:q} --trajectories {params.trajectories:q}"
        " --settings {params.settings:q} --out {output.cohorts:q} > {log} 2>&1"


rule trunk:
    input:
        cohorts=rules.settle.output.cohorts,
        factual=rules.factual.output.factual,
        translations=rules.translations.output.translations,
    output:
        trunk=f"{RESULTS}/trajectories/cohort={{cohort}}/condition={{condition}}/trunk.parquet",
        record=f"{RESULTS}/provenance/trunk/{{cohort}}/{{condition}}.json",
    log:
        f"{RESULTS}/logs/trunk/{{cohort}}/{{condition}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/trunk/{{cohort}}/{{condition}}.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    params:
        settings=lambda wildcards: settings(STUDY, "trunk", wildcards.condition),
        code=code_digest("pipeline.trajectories.command:trunk", OTHER_AGENTS),
    shell:
        "cir --record {output.record:q}"
        " trunk --cohort {wildcards.cohort} --condition {wildcards.condition} --cohorts {input.cohorts:q}"
        " --factual {input.factual:q} --translations {input.translations:q} --settings {params.settings:q}"
        " --threads {threads} --out {output.trunk:q} > {log} 2>&1"
