"""The command line: ``python -m benchmarks`` measures and writes JSON, a page and charts."""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks import report
from benchmarks.datasets import CACHE, DATASETS
from benchmarks.environment import describe
from benchmarks.goals import outcomes
from benchmarks.peers import PEERS, installed
from benchmarks.plans import PROFILES, smoke
from benchmarks.session import run

DOCS = Path(__file__).parent.parent / "docs" / "benchmarks"


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure smalti against its peers.")
    profile = parser.add_mutually_exclusive_group()
    profile.add_argument("--full", dest="profile", action="store_const", const="full", help="everything, growth too")
    profile.add_argument(
        "--layouts", dest="profile", action="store_const", const="layouts", help="layouts against columns asked for"
    )
    parser.add_argument("--smoke", action="store_true", help="tiny tables, seconds; everything unless --layouts")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS), metavar="PEER", help=", ".join(PEERS))
    parser.add_argument("--only", nargs="+", choices=DATASETS, metavar="DATASET", help=", ".join(DATASETS))
    parser.add_argument("--rounds", type=int, help="turns of every peer, instead of the profile's own number")
    parser.add_argument("--out", type=Path, help="where results go; docs/benchmarks, or the cache for a partial run")
    parser.add_argument("--no-charts", action="store_true", help="no SVG, so no matplotlib")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Measure, write results, print the page; 1 when a peer failed."""
    args = parse(arguments)
    profile = args.profile or ("full" if args.smoke else "headline")
    plans, effort = smoke(profile) if args.smoke else PROFILES[profile]
    profile = "smoke" if args.smoke else profile
    if args.only:
        plans = tuple(plan for plan in plans if plan.dataset.name in args.only)
    if args.rounds:
        effort = replace(effort, rounds=args.rounds)
    peers, missing = installed(name for name in args.peers if any(name in plan.peers for plan in plans))
    for name, why in missing.items():
        say(f"without {name}: {why}")

    start = time.monotonic()
    where = describe(peers)
    results = run(plans, effort, peers, say)
    document = {
        "profile": profile,
        "command": " ".join(["python -m benchmarks", *(sys.argv[1:] if arguments is None else arguments)]),
        "environment": where,
        "effort": asdict(effort),
        "load_at_end": os.getloadavg()[0],
        "minutes": round((time.monotonic() - start) / 60, 1),
        "missing": missing,
        "datasets": {p.dataset.name: {"columns": p.dataset.columns, "rows": p.dataset.rows} for p in plans},
        # The goals speak of tables of a certain size: a smoke run, on tiny ones, reaches and misses none of them.
        # The layouts are compared with each other, so the goals have no place on their page.
        "goals": []
        if args.profile == "layouts"
        else [each.to_json() for each in outcomes([] if args.smoke else results)],
        "results": [result.to_json() for result in results],
    }

    whole = not args.smoke and not args.only and args.peers == list(PEERS)
    out = args.out or (DOCS if whole else CACHE / "results")
    out.mkdir(parents=True, exist_ok=True)
    charts = {} if args.no_charts else draw(document, out)
    report.publish(out, profile, document, report.page(document, charts))
    say(f"{document['minutes']} minutes; written to {out}")
    return int(any(result.error for result in results))


def draw(document: dict[str, object], out: Path) -> dict[str, str]:
    """The charts; matplotlib is imported only when they are wanted."""
    from benchmarks import charts

    return charts.draw(document, out)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
