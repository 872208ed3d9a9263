"""
Stage 6, evaluation: policies side by side on the held-out cohort, looked up among its recorded branches; and the router
live inside the harness, which must decide and end as its look-up does.

REQUIRED INPUTS
    results/<study>/router/router.json, router/decisions.parquet, outcomes/pairs.parquet, games/translations.parquet
    results/<study>/trajectories/cohort=C/condition=E/trunk.parquet of the held-out cohort
OUTPUTS
    results/<study>/evaluation/summary.json
    results/<study>/evaluation/live.parquet   one row an episode; the job fails where one differs from its look-up
"""


rule evaluate:
    input:
        router=rules.fit.output.router,
        decisions=rules.features.output.decisions,
        pairs=rules.pairs.output.pairs,
    output:
        summary=f"{RESULTS}/evaluation/summary.json",
        record=f"{RESULTS}/provenance/evaluate.json",
    log:
        f"{RESULTS}/logs/evaluate.log",
    benchmark:
        f"{RESULTS}/benchmarks/evaluate.tsv"
    conda:
        "../envs/analysis.yaml"
    params:
        cohort=EVALUATE,
        resamples=STUDY.statistics.resamples,
        seed=STUDY.statistics.seed,
        settings=settings(STUDY, "evaluate"),
        code=code_digest("pipeline.evaluation.command:evaluate"),
    shell:
        "cir --record {output.record:q}"
        " evaluate {input.router:q} --decisions {input.decisions:q} --pairs {input.pairs:q} --cohort {params.cohort}"
        " --resamples {params.resamples} --seed {params.seed} --out {output.summary:q} > {log} 2>&1"


rule live:
    input:
        router=rules.fit.output.router,
        trunks=expand(rules.trunk.output.trunk, cohort=EVALUATE, condition=STUDY.protocol.conditions),
        translations=rules.translations.output.translations,
        decisions=rules.features.output.decisions,
        pairs=rules.pairs.output.pairs,
    output:
        live=f"{RESULTS}/evaluation/live.parquet",
        record=f"{RESULTS}/provenance/live.json",
    log:
        f"{RESULTS}/logs/live.log",
    benchmark:
        f"{RESULTS}/benchmarks/live.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    params:
        cohort=EVALUATE,
        trunks=lambda wildcards, input: [f"--trunk={trunk}" for trunk in input.trunks],
        settings=settings(STUDY, "live"),
        code=code_digest("pipeline.evaluation.live_command:live", OTHER_AGENTS),
    shell:
        "cir --record {output.record:q}"
        " live {input.router:q} {params.trunks:q} --translations {input.translations:q} --decisions {input.decisions:q}"
        " --pairs {input.pairs:q} --cohort {params.cohort} --settings {params.settings:q} --code {params.code}"
        " --threads {threads} --out {output.live:q} > {log} 2>&1"
