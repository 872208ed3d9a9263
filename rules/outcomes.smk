"""
Stage 4, outcomes: pair each branch with its trunk; count rescues and harms; give their intervals.

REQUIRED INPUTS
    results/<study>/games/cohorts.parquet, all trunks and all forks
OUTPUTS
    results/<study>/outcomes/pairs.parquet        one row a planned unit with two outcomes
    results/<study>/outcomes/exclusions.parquet   one row a unit without, and why
    results/<study>/outcomes/effects.parquet      four cells, effect, interval, tests
"""


rule pairs:
    input:
        cohorts=rules.settle.output.cohorts,
        trunks=expand(rules.trunk.output.trunk, cohort=COHORTS, condition=STUDY.protocol.conditions),
        forks=expand(
            rules.fork.output.part,
            cohort=COHORTS,
            condition=STUDY.protocol.conditions,
            delay=STUDY.protocol.delays,
            operator=STUDY.protocol.operators,
        ),
    output:
        pairs=f"{RESULTS}/outcomes/pairs.parquet",
        exclusions=f"{RESULTS}/outcomes/exclusions.parquet",
        record=f"{RESULTS}/provenance/pairs.json",
    log:
        f"{RESULTS}/logs/pairs.log",
    benchmark:
        f"{RESULTS}/benchmarks/pairs.tsv"
    conda:
        "../envs/analysis.yaml"
    params:
        trajectories=lambda wildcards, input: Path(input.trunks[0]).parents[2],
        forks=lambda wildcards, input: Path(input.forks[0]).parents[4],
        settings=settings(STUDY, "pairs"),
        code=code_digest("pipeline.outcomes.command:pairs"),
    shell:
        "cir --record {output.record:q}"
        " pairs --cohorts {input.cohorts:q} --trajectories {params.trajectories:q} --forks {params.forks:q}"
        " --settings {params.settings:q} --out {output.pairs:q} --exclusions {output.exclusions:q} > {log} 2>&1"


rule effects:
    input:
        pairs=rules.pairs.output.pairs,
    output:
        effects=f"{RESULTS}/outcomes/effects.parquet",
        record=f"{RESULTS}/provenance/effects.json",
    log:
        f"{RESULTS}/logs/effects.log",
    benchmark:
        f"{RESULTS}/benchmarks/effects.tsv"
    conda:
        "../envs/analysis.yaml"
    params:
        resamples=STUDY.statistics.resamples,
        seed=STUDY.statistics.seed,
        settings=settings(STUDY, "effects"),
        code=code_digest("pipeline.outcomes.command:effects"),
    shell:
        "cir --record {output.record:q}"
        " effects {input.pairs:q} --resamples {params.resamples} --seed {params.seed} --out {output.effects:q} > {log} 2>&1"
