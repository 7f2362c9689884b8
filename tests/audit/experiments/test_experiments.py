"""What each audit must show, on a few trials; the whole is `expunge audit all`."""

from __future__ import annotations

import numpy as np
import pytest

from audit.small_audits import made
from expunge.audit.engine import Plan
from expunge.audit.experiments import EXPERIMENTS, load_experiment
from expunge.audit.experiments.projection import TOLERANCES
from expunge.audit.own_keys import FEWEST, own_plan
from expunge.audit.results import AuditResults
from expunge.errors import InputError
from expunge.preprocessing.width import choose_width

REGIMES = ("gaussian", "redundant", "clinical", "learned")


def test_every_scheduled_operation_is_a_row(small_results: AuditResults) -> None:
    for name in small_results.experiments:
        trials = small_results.table(name, "trials")
        for group, count in small_results.manifest(name)["scheduled"].items():
            regime, _, arm = group.rpartition("/")
            rows = trials.filter((trials["regime"] == regime) & (trials["arm"] == arm))
            assert rows.height == count, (name, group)


def test_every_state_of_ours_is_optimal_to_rounding(small_results: AuditResults) -> None:
    for name in small_results.experiments:
        states = small_results.table(name, "states")
        ours = states.filter((states["source"] == "ours") & states["role"].is_in(["published"]))
        if name == "streaming":
            ours = ours.filter(ours["arm"].is_in(["never", "archive"]))
        assert ours.height
        assert ours["worst"].max() < 1e-12, name  # type: ignore[operator]


def test_the_example_expires_as_in_the_paper(small_results: AuditResults) -> None:
    numbers = small_results.numbers("expiry")
    assert numbers["reserve coefficient"] == 0.0
    assert numbers["dropped/removal/score_difference"] == 0.0
    assert numbers["dropped/removal/readout_difference"] == 0.0
    assert f"{numbers['classic/removal/readout_difference']:.1e}" == "4.6e-09"
    assert f"{numbers['coefficient after']:.3f}" == "0.033"
    assert f"{numbers['dropped/admission/score_difference']:.1e}" == "4.1e-03"
    assert numbers["archive/admission/score_difference"] < 1e-15
    assert numbers["proved"] == numbers["reactivated"] == numbers["refused"] == 1.0


@pytest.mark.parametrize("regime", REGIMES)
def test_deletions_agree_with_two_solvers(small_results: AuditResults, regime: str) -> None:
    numbers = small_results.numbers("deletion")
    assert numbers[f"{regime}/ours/attempted"] == numbers[f"{regime}/ours/returned"] == 4.0
    assert numbers[f"{regime}/ours/rescued"] == 0.0
    for backend in ("daqp", "clarabel"):
        name = f"{regime}/ours/{backend}"
        assert numbers[f"{name}/score_difference/max"] <= 1e-9
        assert numbers[f"{name}/strict/partition_match"] == numbers[f"{name}/strict"] > 0.0
    assert numbers[f"{regime}/decay/refit/score_difference/median"] > 1e-3


@pytest.mark.parametrize("regime", REGIMES)
def test_projected_pairs_agree_at_every_tolerance(small_results: AuditResults, regime: str) -> None:
    numbers = small_results.numbers("projection")
    for tolerance in TOLERANCES:
        name = f"{regime}/ours/{tolerance:.0e}"
        assert numbers[f"{name}/pairs"] == 4.0
        assert numbers[f"{name}/readout_percent/max"] <= 0.1
        for residual in ("mass", "box", "excess", "stationarity", "complementarity"):
            assert numbers[f"{name}/{residual}/max"] <= 1e-13


def test_chained_edits_need_no_rescue(small_results: AuditResults) -> None:
    numbers = small_results.numbers("sequential")
    for arm in ("ours", "guarded"):
        assert numbers[f"all/{arm}/operations returned"] == numbers[f"all/{arm}/operations scheduled"] == 32.0
    assert numbers["all/ours/initial rescues"] == numbers["all/ours/update rescues"] == 0.0
    assert numbers["all/ours/score_difference/max"] <= 1e-9
    assert numbers["all/classic/violations explained"] == numbers["all/classic/violations"]
    assert (
        numbers["all/classic/operations returned"]
        + numbers["all/classic/operations failed"]
        + numbers["all/classic/operations not-run"]
        == 32.0
    )


def test_pruning_with_an_archive_changes_nothing_and_without_it_drifts(small_results: AuditResults) -> None:
    numbers = small_results.numbers("streaming")
    assert numbers["all/archive/pruned"] > 0.0
    assert numbers["all/archive/never/coefficient_difference/max"] < 1e-10
    assert numbers["all/archive/residual/max"] < 1e-12
    assert numbers["all/naive/never/score_difference/max"] > 1e-5
    assert numbers["all/naive/states failing the check"] > 0.0
    for arm in ("archive", "forget", "once", "once-sketched"):
        assert numbers[f"all/{arm}/wrong_claims"] == 0.0
    assert numbers["all/forget/never/coefficient_difference/max"] < 1e-10


def test_a_deleted_record_is_not_told_and_the_others_are(small_results: AuditResults) -> None:
    numbers = small_results.numbers("records")
    for arm in ("before", "delete", "correct"):
        assert numbers[f"{arm}/answered"] == numbers[f"{arm}/asked"]
    assert numbers["before/secret/right"] == numbers["correct/secret/right"] == 1.0
    assert numbers["delete/secret/right"] < numbers["decay/secret/right"]


def test_times_come_with_states(small_results: AuditResults) -> None:
    timings = small_results.table("latency", "timings")
    assert set(timings["arm"]) == {"ours", "classic", "libsvm", "refit"}
    assert set(timings["victim"]) == {"active", "reserve"}
    assert timings["seconds"].min() > 0.0  # type: ignore[operator]
    numbers = small_results.numbers("latency")
    assert numbers["ours/residual/max"] < 1e-12 < numbers["libsvm/residual/max"] < 1e-6


def test_a_reference_never_comes_from_the_solver_it_judges(small_results: AuditResults) -> None:
    for name in small_results.experiments:
        if "comparisons" not in small_results.tables(name):
            continue
        sources = {row["state"]: row for row in small_results.table(name, "states").to_dicts()}
        judged = 0
        for row in small_results.table(name, "comparisons").to_dicts():
            state, reference = sources[row["state"]], sources[row["reference"]]
            if state["source"] == "ours" and reference["role"] == "reference":
                assert reference["source"] in ("daqp", "clarabel")
                judged += 1
        assert judged or name in ("projection", "streaming"), name


@pytest.mark.parametrize("rows", [FEWEST, 60])
@pytest.mark.parametrize("name", ["deletion", "sequential", "streaming", "latency", "projection"])
def test_ones_own_keys_are_audited(name: str, rows: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    keys = np.random.default_rng(7).standard_normal((rows, 3))
    plan = own_plan(keys, source="mine.npy", quick=True)
    results = made(tmp_path_factory.mktemp(name), name, plan=plan)
    told = results.manifest(name)["settings"]["keys"]
    assert (told["rows"], told["dimension"], told["source"]) == (rows, 3, "mine.npy")
    trials = results.table(name, "trials")
    assert trials["regime"].str.starts_with("own").all()
    assert (trials.filter(trials["arm"].is_in(["ours", "archive"]))["status"] == "returned").all()


def test_the_width_of_ones_own_keys_is_that_of_a_memory() -> None:
    keys = np.random.default_rng(7).standard_normal((30, 3))
    assert own_plan(keys, source="k").sigma == choose_width(keys)


@pytest.mark.parametrize(
    ("keys", "options", "words"),
    [
        (np.zeros((25, 2)), {}, "at least 26 keys"),
        (np.zeros((30, 2)), {}, "all keys are equal"),
        (np.eye(30), {"nu": 0.95}, "nu must lie in"),
        (np.eye(30), {"sigma": -1.0}, "sigma must be a positive width"),
        (np.full((30, 2), np.nan), {}, "keys must be finite"),
    ],
)
def test_unusable_keys_are_named(keys: np.ndarray, options: dict[str, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        own_plan(keys, source="k", **options)  # type: ignore[arg-type]


def test_audits_of_given_entries_take_no_keys(tmp_path_factory: pytest.TempPathFactory) -> None:
    plan = own_plan(np.eye(30), source="k")
    for name in ("expiry", "records"):
        with pytest.raises(InputError, match="takes no keys"):
            made(tmp_path_factory.mktemp(name), name, plan=plan)


def test_every_audit_has_a_name_and_says_what_it_is() -> None:
    for name in EXPERIMENTS:
        experiment = load_experiment(name)
        assert experiment.name == name
        assert experiment.title
        assert experiment.tasks(Plan())
        units = [task.unit for task in experiment.tasks(Plan())]
        assert len(set(units)) == len(units)
    with pytest.raises(InputError, match="there is no audit called 'nothing'; choose one of rows, expiry"):
        load_experiment("nothing")
