"""The report: what it reads, what it shows, and that a receipt's text is never more than text."""

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from report_receipts import changed, put, receipt, speed
from rich.console import Console
from typer.testing import CliRunner

from dflash_kit import paths
from dflash_kit.cli import app
from dflash_kit.errors import InputError
from dflash_kit.report import collect, page, plots, text
from dflash_kit.report.cli import receipt_schema
from dflash_kit.smoke.receipt import Host, to_json
from dflash_kit.verdicts import Verdict

FAILED = {"accept-length": (Verdict.FAIL, "2.31", "check the draft's weights")}
OLD, NEW = "0.5.11-dflash.1", "0.5.11-dflash.2"


def fleet(folder: Path, *receipts) -> collect.Fleet:
    return collect.fleet([put(folder, *receipts)])


def test_a_host_is_what_its_newest_receipt_says(tmp_path):
    made = [receipt(minutes=0, release=OLD), receipt(minutes=9, wrong=FAILED), receipt(minutes=5)]
    host = fleet(tmp_path, *made).hosts[0]
    assert host.newest.receipt.verdict is Verdict.FAIL
    assert [check.code for check in host.newest.trouble] == ["accept-length"]
    assert host.since == made[2].time  # the first receipt of what is in service, not the newest


def test_another_image_of_the_same_name_is_in_service_since_it_came(tmp_path):
    made = [receipt(minutes=0), receipt(minutes=5, image="sha256:" + "f" * 64)]
    assert fleet(tmp_path, *made).hosts[0].since == made[1].time


def test_figures_are_the_newest_of_what_is_in_service(tmp_path):
    old = receipt(minutes=0, release=OLD, speed=speed(1), figures={"accept_length": 9.9})
    benched = receipt(minutes=1, speed=speed(2, step_ms=10))
    quick = receipt(minutes=2, figures={"tok_s_c1": 5.0})
    host = fleet(tmp_path, old, benched, quick).hosts[0]
    assert host.accept_length == 4.0
    assert host.speeds["C=8"] == benched.speed[1].tok_s  # a bench beats the smoke run's own prompts
    assert fleet(tmp_path / "b", old, quick).hosts[0].accept_length is None


def test_the_same_receipt_in_two_places_is_one(tmp_path):
    put(tmp_path / "a", receipt())
    assert len(fleet(tmp_path, receipt()).runs) == 1


def test_host_of_a_schema_1_receipt_is_its_folder(tmp_path):
    old = receipt("0123abcd", schema_version=1)
    assert fleet(tmp_path, old).hosts[0].host == "0123abcd"
    file = tmp_path / "gpu7" / "old.json"
    file.parent.mkdir()
    file.write_text(to_json(old))
    assert collect.read(file).host == "gpu7"
    file.write_text(to_json(receipt("gpu1")))
    assert collect.read(file).host == "gpu1"


def run(*arguments: object):
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def test_page_and_pictures(tmp_path):
    folder = put(
        tmp_path / "in", receipt(speed=speed(1), accept_by_position=[0.8, 0.5], wrong=FAILED)
    )
    out = tmp_path / "out" / "index.html"
    done = run(folder, "--out", out, "--png", tmp_path / "png")
    assert done.exit_code == 0, done.output
    html = out.read_text()
    assert "check the draft&#39;s weights" in html
    drawn = sorted(file.stem for file in (tmp_path / "png").iterdir())
    assert drawn == [
        "acceptance-by-position",
        "acceptance-gpu1-b300-x8-latency",
        "latency-between-tokens",
        "latency-first-token",
        "latency-whole-request",
        "speed-gpu1-b300-x8-latency",
    ]
    assert html.count("<svg ") == len(drawn)
    assert all(f.read_bytes()[:4] == b"\x89PNG" for f in (tmp_path / "png").iterdir())


class Elements(HTMLParser):
    """Every element of a page with its attributes, and the text outside of the style sheet."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        if not self.cdata_elem:
            self.texts.append(data)


EVIL = "\"'></title></style><script>alert(1)</script><img src=x onerror=alert(1)>$\\frac{{{7*7}}}"


def hostile(minutes: float = 0):
    """Whatever text a receipt can carry is an attack."""
    wrong = {
        code: (verdict, EVIL, EVIL)
        for code, verdict in (("accept-length", Verdict.FAIL), ("metrics", Verdict.INCONCLUSIVE))
    }
    made = receipt(minutes=minutes, wrong=wrong, speed=speed(1), accept_by_position=[0.5])
    named = {name: EVIL for name in ("release", "profile", "point", "deployment", "image", "url")}
    host = Host(name="_" + EVIL, system=EVIL, cpus=1, driver=EVIL, gpus=[EVIL, EVIL])
    for check in made.checks:
        check.wanted = EVIL
    codes = {check.code: check.code + EVIL for check in made.checks}
    for check in made.checks:
        check.code = codes[check.code]
    figures = {EVIL: 1.0, "accept_length": 2.0, "tok_s_c1": 3.0, "tok_s_c\u00b2": 4.0}
    required = [codes[code] for code in made.required]
    return made.model_copy(update={**named, "host": host, "figures": figures, "required": required})


def test_text_of_a_receipt_stays_text(tmp_path):
    file = tmp_path / "evil.json"
    file.write_text(to_json(hostile()))
    seen = Elements(page.render(collect.fleet([file])))
    tags = {tag for tag, _ in seen.found}
    assert not tags & {"script", "img", "iframe", "object", "embed", "link", "base", "form"}
    for tag, attributes in seen.found:
        assert not [name for name in attributes if name.startswith("on")], tag
        for name in ("href", "src", "xlink:href"):
            assert (attributes.get(name) or "#").startswith("#"), (tag, attributes)
    assert EVIL in "".join(seen.texts)
    metas = [attributes.get("content") or "" for tag, attributes in seen.found if tag == "meta"]
    assert any("default-src 'none'" in content for content in metas)


def test_pictures_of_hostile_names_stay_in_their_folder(tmp_path):
    file = tmp_path / "evil.json"
    file.write_text(to_json(hostile().model_copy(update={"profile": "../../up"})))
    made = list(plots.write_pictures(collect.fleet([file]), tmp_path))
    assert made
    assert all(picture.parent == tmp_path and picture.exists() for picture in made)


def test_terminal_gets_neither_markup_nor_control_sequences(tmp_path):
    bad = "\x1b]0;owned\x07[bold red]x[/]"
    made = receipt(bad, wrong={"health": (Verdict.FAIL, bad, bad)})
    file = tmp_path / "evil.json"
    file.write_text(to_json(made))
    console = Console(width=200, force_terminal=False)
    with console.capture() as captured:
        text.show_fleet(console, collect.fleet([file]))
    assert "\x1b" not in captured.get()
    assert "[bold red]x[/]" in captured.get()


def test_what_was_not_measured_is_never_0(tmp_path):
    folder = put(tmp_path, receipt(figures={}), receipt(minutes=1, figures={}))
    html = page.render(collect.fleet([folder]))
    seen = "".join(Elements(html).texts)
    assert "not measured" in seen
    assert "<svg" not in html
    assert not [x for x in seen.split() if x in ("0", "0.00", "nan")]
    done = run(folder, "--text")
    assert done.output.count("not measured") == 2  # acceptance and tok/s
    host = json.loads(run(folder, "--json").output)["hosts"][0]
    assert (host["accept_length"], host["tok_s"]) == (None, {})


def test_a_file_that_is_no_receipt_is_named_and_the_others_are_shown(tmp_path):
    folder = put(tmp_path / "in", receipt())
    (folder / "notes.json").write_text("{}")
    (folder / "tampered.json").write_text(changed(receipt(wrong=FAILED), verdict="PASS"))
    out = tmp_path / "index.html"
    done = run(folder, "--out", out)
    assert isinstance(done.exception, InputError)
    assert "2 of the files are no receipts to be believed" in str(done.exception)
    for shown in (" ".join(done.output.split()), out.read_text()):
        assert "tampered.json: verdict: got PASS, its checks come to FAIL" in shown
        assert "notes.json" in shown
        assert "gpu1" in shown


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["{}/none"], "no such file or folder"),
        (["{}"], "no receipts; run the smoke test, or name their folder"),
        (["{}", "--text", "--png", "x"], "wanted one of them"),
        (["diff", "{}/none", "{}/none"], "cannot be read: No such file or directory"),
    ],
)
def test_mistakes_get_one_line(arguments, line, tmp_path):
    done = run(*(each.format(tmp_path) for each in arguments))
    assert isinstance(done.exception, InputError)
    assert line in str(done.exception)


def test_published_schema_is_the_models():
    published = paths.ROOT / "docs" / "receipt.schema.json"
    assert published.read_text() == receipt_schema()
    assert run("schema").output == receipt_schema()


def validator() -> Draft202012Validator:
    schema = json.loads(receipt_schema())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def test_receipts_are_what_the_schema_says():
    full = receipt(speed=speed(1), accept_by_position=[0.5], metrics={"a_total": 1.0})
    nowhere = receipt(deployment=None, image=None, profile=None)
    for made in (full, nowhere):
        validator().validate(json.loads(to_json(made)))


@pytest.mark.parametrize(
    "wrong", [{"verdict": "GOOD"}, {"schema_version": 3}, {"checks": [{}]}, {"required": "all"}]
)
def test_schema_refuses_what_is_no_receipt(wrong):
    with pytest.raises(ValidationError):
        validator().validate(json.loads(changed(receipt(), **wrong)))
