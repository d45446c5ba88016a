"""The commands `winogen bench` and `winogen lab`, which winogen finds as ``winogen.commands``."""

from winogen.cli.options import App
from winogen_lab.cli import (
    algebras,
    bench,
    blocking,
    cover,
    engine_tables,
    explain,
    front,
    growth,
    loops,
    low_rank,
    ranks,
    regret,
    schemes,
    search_loops,
    stack,
    strassen,
    temporaries,
    ways,
    word_lengths,
)

benchmark = App(add_completion=False)
benchmark.command("bench", epilog=bench.EXAMPLE)(bench.bench)

laboratory = App(
    help="What binds a layer, which algebra suits it, how well plans are chosen, and loop nests.",
    no_args_is_help=True,
    add_completion=False,
)
laboratory.command(epilog=explain.EXAMPLE)(explain.explain)
laboratory.command(epilog=stack.EXAMPLE)(stack.stack)
laboratory.command(epilog=ways.EXAMPLE)(ways.ways)
laboratory.command(epilog=strassen.EXAMPLE)(strassen.strassen)
laboratory.command(epilog=front.EXAMPLE)(front.front)
laboratory.command(epilog=growth.EXAMPLE)(growth.growth)
laboratory.command(epilog=algebras.JOINED)(algebras.joined)
laboratory.command(epilog=algebras.FOURIER)(algebras.fourier)
laboratory.command(epilog=low_rank.EXAMPLE)(low_rank.low_rank)
laboratory.command(epilog=ranks.EXAMPLE)(ranks.ranks)
laboratory.command(epilog=schemes.EXAMPLE)(schemes.schemes)
laboratory.command(epilog=word_lengths.EXAMPLE)(word_lengths.word_lengths)
laboratory.command(epilog=regret.EXAMPLE)(regret.regret)
laboratory.command(epilog=cover.EXAMPLE)(cover.cover)
laboratory.command(epilog=loops.EXAMPLE)(loops.loops)
laboratory.command(epilog=temporaries.EXAMPLE)(temporaries.temporaries)
laboratory.command(epilog=blocking.EXAMPLE)(blocking.blocking)
laboratory.command(epilog=search_loops.EXAMPLE)(search_loops.search_loops)
laboratory.command(epilog=engine_tables.WORK)(engine_tables.work)
laboratory.command("engine", epilog=engine_tables.ENGINE)(engine_tables.engine_figures)
