"""``python -m winogen.reports.published`` prints its table behind the progress."""

from winogen import progress
from winogen.numerics import protocol
from winogen.reports import published


def test_every_row_is_announced_and_printed(monkeypatch, capsys):
    steps = []

    class Found:
        mean = 1e-7

    def measure(*arguments, **options):
        assert not capsys.readouterr().out  # nothing is printed while a bar may be there
        return Found

    class Bar:
        def __enter__(self):
            return lambda *step: steps.append(step)

        def __exit__(self, *error):
            pass

    monkeypatch.setattr(protocol, "measure", measure)
    monkeypatch.setattr(progress, "counting", lambda what: Bar())
    published.main()
    lines = capsys.readouterr().out.splitlines()
    names = ["direct 1D", "direct 2D", *(f"F({m},3)" for m in published.PUBLISHED)]
    assert [line[:12].strip() for line in lines[1:]] == names
    assert steps == [(k, len(names), name) for k, name in enumerate(names)]
