"""`panprivacy reproduce` as a command."""

from pathlib import Path

import pytest

from command_line import invoke
from panprivacy.experiments import claims
from panprivacy.experiments.claims import Claim, Of, Verdict
from panprivacy.experiments.reproduce import Reproduction

pytestmark = pytest.mark.slow


def with_claim(of: Of, verdict: Verdict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "judged", lambda tables: [Claim(of, "It is so.", "here", "1", "1", verdict)])  # noqa: ARG005


def test_one_figure_is_reproduced_and_its_claims_are_shown(tmp_path: Path) -> None:
    done = invoke(["reproduce", "--quick", "--figure", "1", "--jobs", "1", "--out", str(tmp_path / "new" / "folder")])
    assert done.exit_code == 0
    assert "holds" in done.output
    assert (tmp_path / "new" / "folder" / "report.html").exists()
    assert (tmp_path / "new" / "folder" / "figures" / "figure-01.svg").exists()


@pytest.mark.parametrize(
    ("of", "verdict", "status"),
    [
        (Of.EXPERIMENTS, Verdict.FAILS, 1),
        (Of.EXPERIMENTS, Verdict.OPEN, 0),
        (Of.EXPERIMENTS, Verdict.HOLDS, 0),
        (Of.THEOREMS, Verdict.FAILS, 0),
        (Of.LIBRARY, Verdict.FAILS, 0),
    ],
)
def test_the_exit_status_is_1_if_a_claim_of_the_papers_experiments_fails(
    of: Of, verdict: Verdict, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_claim(of, verdict, monkeypatch)
    done = invoke(["reproduce", "--quick", "-f", "1", "-j", "1", "-o", str(tmp_path)])
    assert done.exit_code == status
    assert verdict in done.output


def test_an_interruption_says_that_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Reproduction, "compute", interrupted)
    done = invoke(["reproduce", "--quick", "-f", "1", "-o", str(tmp_path)])
    assert done.exit_code == 130
    assert "the same command continues" in " ".join(done.output.split())


def test_a_folder_that_cannot_be_written_is_one_line_and_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = invoke(["reproduce", "--quick", "-f", "1", "-j", "1", "-o", str(tmp_path / "file")])
    assert done.exit_code == 2
    assert "Traceback" not in done.output


def test_a_figure_that_does_not_exist_is_refused() -> None:
    assert invoke(["reproduce", "--figure", "11"]).exit_code == 2
