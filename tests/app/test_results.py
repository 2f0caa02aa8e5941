"""The results page: from reports as benches print them to one file; what is no report is one sentence."""

import errno
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app import results
from app.bench import throughput
from app.bench.against import PEERS
from app.bench.report import Bench, as_object
from app.bench.throughput import Row as ThroughputRow
from app.results import read_report, run_results
from engine.errors import Refused
from panels.results_charts import specs

SIZES = (64, 256, 1024)
TARGET = {"name": "x", "value": 1, "target": 2, "op": ">=", "met": False}


def swap_rows() -> list[dict[str, Any]]:
    speeds = {"out_gb_per_s": 9.0, "in_gb_per_s": 9.5, "staged_out_gb_per_s": 5.0, "memcpy_gb_per_s": 11.0}
    return [{"case": "block-major", "block_kib": size, "blocks": 9, "mib": 16, **speeds} for size in SIZES]


def report(name: str = "swap", rows: list[dict[str, Any]] | None = None, **other: Any) -> dict[str, Any]:
    bench = Bench(name, "quick")
    for row in swap_rows() if rows is None else rows:
        bench.row(**row)
    bench.target("out / memcpy", 0.9, ">=", 0.8)
    bench.target("in / memcpy", 0.7, ">=", 0.8)
    bench.note("A note.")
    return as_object(bench) | other


def saved(path: Path, made: object) -> Path:
    path.write_text(made if isinstance(made, str) else json.dumps(made), encoding="utf-8")
    return path


def made(tmp_path: Path, *reports: dict[str, Any]) -> str:
    paths = [saved(tmp_path / f"{place}.json", one) for place, one in enumerate(reports)]
    run_results(paths, tmp_path / "out.html")
    return (tmp_path / "out.html").read_text(encoding="utf-8")


def test_a_page_has_machine_date_command_figures_and_targets(tmp_path: Path) -> None:
    one = report(at="2026-05-04T03:02:01+02:00", command="parkdeck bench swap --quick --json")
    text = made(tmp_path, one)
    for said in ("2026-05-04 01:02 UTC", one["command"], one["machine"]["cpu"], one["versions"]["numba"], "A note."):
        assert said in text
    for said in ("1 of 2 met", ">= 0.8", ">0.7<", ">9.5<", 'class="badge missed">missed', 'id="chart-1-1"'):
        assert said.replace(">=", "&gt;=") in text or said in text
    page = text.split("<script", 1)[0]
    assert "<link" not in page
    assert "src=" not in page


def test_a_report_names_the_command_however_it_was_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/cli.py", "bench", "swap", "--json"])
    assert report()["command"] == "parkdeck bench swap --json"


def test_two_reports_of_one_bench_stand_beside_each_other(tmp_path: Path) -> None:
    text = made(tmp_path, report(), report(backend="vllm"))
    assert 'id="bench-1"' in text
    assert 'id="bench-2"' in text
    assert 'id="chart-2-1"' in text


def test_what_a_report_holds_stays_text(tmp_path: Path) -> None:
    bad = "</script><img src=x onerror=alert(1)>"
    rows = [{"work": "decode", "kv": bad, "turns": 1, "tokens_each": 2, "tok_per_s": 3.0, bad: bad}]
    one = report("throughput", rows, notes=[bad], command=bad, depth=bad, backend=bad, error=bad)
    one |= {"machine": {bad: bad}, "versions": {bad: bad}}
    one["targets"][0]["name"] = bad
    text = made(tmp_path, one, report(bad))
    assert "<img" not in text.replace("<img-", "")
    assert text.count("</script>") == 3


def test_a_bench_without_what_a_chart_needs_is_a_table(tmp_path: Path) -> None:
    text = made(tmp_path, report("throughput", [{"name": "x", "speed": 1}]), report("foo", [{"a": None}]))
    assert 'id="charts"' not in text
    assert ">n/a<" in text


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("", "is empty"),
        ("not JSON", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[1, 2]", "is no report"),
        ('{"a": 1}', "is no report"),
        (json.dumps(report()).replace("0.9", "NaN"), "holds NaN"),
        (json.dumps(report()).replace("11.0", "1e999"), "has a row"),
        (json.dumps(report()).replace("11.0", "1" + "0" * 400), "is not JSON"),
        (report(rows=[{"a": 1}]) | {"rows": [{"a": [1]}]}, "has a row"),
        (report() | {"rows": 5}, "has no rows"),
        (report() | {"notes": [5]}, "has a note"),
        (report() | {"at": "yesterday"}, "'yesterday' where its date belongs"),
        (report() | {"at": "2026-01-01"}, "where its date belongs"),
        (report() | {"targets": [{"name": "x", "value": 1, "target": 2, "op": "~", "met": True}]}, "has a target"),
        (
            report() | {"targets": [{"name": "x", "value": 1, "target": 2, "op": ">=", "met": True}]},
            "says of the target",
        ),
        ({name: value for name, value in report().items() if name != "machine"}, "has no machine"),
        *(
            (report() | {"targets": [{"name": "x", "value": 1, "target": 2, "op": op, "met": True}]}, "has a target")
            for op in ([], {}, None, 1)
        ),
        *(
            (json.dumps(report()).replace('"block_kib": 64', f'"block_kib": {large}'), "too large for a chart")
            for large in ("1e308", "1" + "0" * 308)
        ),
        (json.dumps(report()).replace("A note.", "A \\ud800 note."), "half of a character"),
        (json.dumps(report()).replace('"mib"', '"\\udfff"'), "half of a character"),
    ],
)
def test_what_is_no_report_is_one_sentence(tmp_path: Path, made: object, said: str) -> None:
    with pytest.raises(Refused) as refused:
        read_report(saved(tmp_path / "x.json", made))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_absent_or_no_text_and_an_output_over_a_report_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="cannot be read"):
        read_report(tmp_path / "absent.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Refused, match="is not JSON"):
        read_report(tmp_path / "bytes.json")
    path = saved(tmp_path / "x.json", report())
    with pytest.raises(Refused, match="one of the reports"):
        run_results([path], path)


def test_an_output_over_a_report_is_refused_by_whatever_name(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.json", report())
    (tmp_path / "hard.json").hardlink_to(path)
    (tmp_path / "soft.json").symlink_to(path)
    for name in ("hard.json", "soft.json"):
        with pytest.raises(Refused, match="one of the reports"):
            run_results([path], tmp_path / name)
    assert read_report(path).bench == "swap"


def test_an_output_that_is_no_file_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = saved(tmp_path / "x.json", report())
    for out, said in ((tmp_path, "is a folder; give the page's file"), (Path(""), "such as results.html")):
        with pytest.raises(Refused, match=said):
            run_results([path], out)
    with pytest.raises(Refused, match=r"there is no folder .*absent; make it"):
        run_results([path], tmp_path / "absent" / "out.html")
    with pytest.raises(Refused, match=r"cannot be written \(.*\); make room"):
        run_results([path], tmp_path / ("x" * 255))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["x.json"]


def test_a_page_that_cannot_be_written_whole_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = saved(tmp_path / "x.json", report()), tmp_path / "out.html"
    out.write_text("the old page", encoding="utf-8")

    def full(draft: Path, text: str, encoding: str) -> None:
        draft.write_bytes(text[:100].encode(encoding))
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        with pytest.raises(Refused, match="No space left"):
            run_results([path], out)
    assert out.read_text(encoding="utf-8") == "the old page"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out.html", "x.json"]
    (tmp_path / "link.html").symlink_to(out)
    run_results([path], tmp_path / "link.html")
    assert "Measured results" in out.read_text(encoding="utf-8")
    run_results([path], Path(os.devnull))
    assert not Path(os.devnull).is_file()


def test_no_more_is_read_of_a_device_or_a_pipe_than_a_report_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "LARGEST_BYTES", 4096)
    with pytest.raises(Refused, match="larger than any report"):
        read_report(Path("/dev/zero"))
    reading, writing = os.pipe()
    os.write(writing, json.dumps(report()).encode())
    os.close(writing)
    assert read_report(Path(f"/dev/fd/{reading}")).bench == "swap"
    os.close(reading)


def test_a_byte_order_mark_is_no_part_of_a_report(tmp_path: Path) -> None:
    assert read_report(saved(tmp_path / "x.json", "\ufeff" + json.dumps(report()))).bench == "swap"


def test_a_bench_reports_no_half_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["cli.py", "bench", "swap", "a\udcffb"])
    bench = Bench("swap")
    bench.row(**{"a\ud800": "b\udfff"})
    bench.note("c\udcff")
    bench.target("d\udcff", 1.0, ">=", 0.5)
    read = read_report(saved(tmp_path / "x.json", as_object(bench, "e\udcff")))
    assert (read.columns, read.cells, read.notes) == (("a\\ud800",), (("b\\udfff",),), ("c\\udcff",))
    assert (read.targets[0].name, read.error) == ("d\\udcff", "e\\udcff")
    assert "a\\udcffb" in read.command


def test_all_that_a_bench_prints_may_be_given_not_the_last_line_alone(tmp_path: Path) -> None:
    assert read_report(saved(tmp_path / "x.json", f"a table\n{json.dumps(report())}\n")).bench == "swap"


def test_charts_draw_what_the_rows_hold_and_nothing_of_what_they_lack() -> None:
    (drawn,) = specs("swap", swap_rows(), "dark")
    assert [trace["name"] for trace in drawn["data"]] == ["out", "in", "out, staged", "memcpy"]
    assert drawn["data"][0]["x"] == [size << 10 for size in SIZES]
    assert drawn["data"][0]["y"] == [9.0] * 3
    assert specs("swap", swap_rows()[:2], "dark") == []
    rows = [
        {"what": "decode", "turns": turns, "context": 1024, "precision": kv, "ms": 2.0 * turns, "gb_per_s": None}
        for turns in (1, 8)
        for kv in ("fp16", "q8")
    ]
    prompt = {"what": "prompt in one piece", "turns": 1, "context": 8192, "precision": "fp16", "ms": 9e4}
    (drawn,) = specs("attention", [*rows, prompt], "light")
    assert [(trace["name"], trace["x"], trace["y"]) for trace in drawn["data"]] == [
        ("fp16", ["1 × 1,024", "8 × 1,024"], [2.0, 16.0]),
        ("q8", ["1 × 1,024", "8 × 1,024"], [2.0, 16.0]),
    ]
    assert specs("throughput", rows, "light") == []


def test_throughput_is_drawn_from_the_rows_that_its_bench_makes() -> None:
    peer = PEERS["llamacpp"]
    found = [
        ThroughputRow("decode", "fp16", 1, 128, (100.0, 110.0, 120.0), (50.0, 50.0, 50.0)),
        ThroughputRow("decode", "q8", 1, 128, (90.0, 90.0, 90.0), (45.0, 45.0, 45.0)),
        ThroughputRow("prefill", "fp16", 1, 512, (600.0, 600.0, 600.0), (200.0, 200.0, 200.0)),
    ]
    alone, beside = Bench("throughput"), Bench("throughput")
    throughput.report(alone, throughput.ALONE["quick"], [replace(row, peers=()) for row in found], None)
    throughput.report(beside, throughput.BESIDE["quick"], found, peer)
    decode, prefill = specs("throughput", alone.rows, "light")
    assert [(trace["name"], trace["y"]) for trace in decode["data"]] == [("fp16", [110.0]), ("q8", [90.0])]
    assert [(trace["x"], trace["y"]) for trace in prefill["data"]] == [(["1 × 512"], [600.0])]
    decode, prefill = specs("throughput", beside.rows, "light")
    assert [trace["name"] for trace in decode["data"]] == ["fp16", "q8", "peer f16", "peer q8_0"]
    assert [trace["y"] for trace in prefill["data"]] == [[600.0], [200.0]]
