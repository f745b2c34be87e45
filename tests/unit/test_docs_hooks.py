"""scripts/docs_hooks.py: anchors of terms, signs of diffs and the programs of a folder, in the
HTML that mkdocs makes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import docs_hooks  # noqa: E402


def test_each_message_of_the_page_of_errors_gets_an_address_of_its_own() -> None:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text()
    messages = re.findall(r"^`(.+)`\n:   ", page, re.M)
    assert len(messages) > 100
    html = '<h2 id="starting">' + "".join(f"<dt><code>{m}</code></dt><dd></dd>" for m in messages)
    done = docs_hooks.anchors_of_terms(html)
    names = re.findall(r'<dt id="([^"]+)">', done)
    assert len(names) == len(set(names)) == len(messages)
    assert "starting" not in names
    assert re.findall(r'href="#([^"]+)"', done) == names
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9-]*", name) for name in names)


def test_a_diff_is_copied_without_its_signs() -> None:
    html = (
        '<div class="language-diff highlight"><pre><span></span><code><span class="w"> </span>'
        "import torch\n"
        '<span class="gi">+import hvdlite</span>\n'
        '<span class="gd">-print(1)</span>\n'
        '<span class="w"> </span>  print(2)\n'
        "</code></pre></div>"
    )
    done = docs_hooks.signs_of_diffs(html)
    # As site.css does while a button copies.
    copied = re.sub(r'<span class="gs-sign">.</span>|(?s:<span class="gd">.*?</span>)', "", done)
    assert re.sub("<[^>]+>", "", copied) == "import torch\nimport hvdlite\n  print(2)\n"
    assert re.sub("<[^>]+>", "", done) == re.sub("<[^>]+>", "", html)


def test_the_programs_of_a_folder_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    shown = docs_hooks.sources("examples")
    for path in (ROOT / "examples").glob("*.py"):
        assert f'??? example "{path.name}"' in shown
    with pytest.raises(SystemExit):
        docs_hooks.sources("docs")


def test_the_version_is_that_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert f'version = "{docs_hooks.version()}"' in (ROOT / "pyproject.toml").read_text()


def test_pages_have_no_address_and_no_repository_unless_the_publisher_names_them() -> None:
    """They are not known yet, and a wrong one would lead readers to strangers."""
    text = (ROOT / "mkdocs.yml").read_text()
    assert 'site_url: !ENV [HVDLITE_SITE_URL, ""]' in text
    assert 'repo_url: !ENV [HVDLITE_REPO_URL, ""]' in text
