"""
Stage 6, evaluation: policies side by side on the held-out cohort, looked up among its recorded branches.

REQUIRED INPUTS
    results/<study>/router/router.json, router/decisions.parquet, outcomes/pairs.parquet
OUTPUTS
    results/<study>/evaluation/summary.json
"""


rule evaluate:
    input:
        router=rules.fit.output.router,
        decisions=rules.features.output.decisions,
        pairs=rules.pairs.output.pairs,
    output:
        summary=f"{RESULTS}/evaluation/summary.json",
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
        "cir evaluate {input.router:q} --decisions {input.decisions:q} --pairs {input.pairs:q} --cohort {params.cohort}"
        " --resamples {params.resamples} --seed {params.seed} --out {output.summary:q} > {log} 2>&1"
