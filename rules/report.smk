"""
Stage 7, report: the study's page, its figures as files, and the summary that a terminal shows.

REQUIRED INPUTS
    everything above, and the study's config
OUTPUTS
    results/<study>/report/index.html    one self-contained page; figures/ stands beside it
    results/<study>/report/summary.txt   the same in a terminal's width
"""


rule study:
    output:
        study=f"{RESULTS}/study.json",
        record=f"{RESULTS}/provenance/study.json",
    log:
        f"{RESULTS}/logs/study.log",
    conda:
        "../envs/analysis.yaml"
    params:
        study=STUDY.model_dump_json(by_alias=True),
    shell:
        "cir --record {output.record:q}" " config record --study {params.study:q} --out {output.study:q} > {log} 2>&1"


rule report:
    input:
        study=rules.study.output.study,
        games=rules.games.output.games,
        cohorts=rules.settle.output.cohorts,
        pairs=rules.pairs.output.pairs,
        exclusions=rules.pairs.output.exclusions,
        effects=rules.effects.output.effects,
        router=rules.fit.output.router,
        evaluation=rules.evaluate.output.summary,
    output:
        page=f"{RESULTS}/report/index.html",
        summary=f"{RESULTS}/report/summary.txt",
        record=f"{RESULTS}/provenance/report.json",
    log:
        f"{RESULTS}/logs/report.log",
    benchmark:
        f"{RESULTS}/benchmarks/report.tsv"
    conda:
        "../envs/analysis.yaml"
    params:
        code=code_digest("pipeline.report.command:report"),
    shell:
        "cir --record {output.record:q}"
        " report --study {input.study:q} --games {input.games:q} --cohorts {input.cohorts:q} --pairs {input.pairs:q}"
        " --exclusions {input.exclusions:q} --effects {input.effects:q} --router {input.router:q}"
        " --evaluation {input.evaluation:q} --out {output.page:q} --summary {output.summary:q} > {log} 2>&1"
