//! Writes the log of a generated population in the combined format to stdout: ordinary clients, scrapers and credential
//! stuffers, in a number of minutes that the first argument states (30 by default), times the second (1 by default).

use std::io::{self, BufWriter, Write};

use tollgate_workbench::traffic::Population;

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse().unwrap_or(1));
    let minutes: u32 = arguments.next().unwrap_or(30);
    let size = arguments.next().unwrap_or(1);
    let population = Population {
        seed: 3,
        poisson_clients: 600 * size,
        on_off_clients: 600 * size,
        scrapers: 2,
        stuffers: 2,
        // 2026-01-01
        start_ns: 1_767_225_600_000_000_000,
        duration_s: 60 * u64::from(minutes),
    };
    let mut stdout = BufWriter::new(io::stdout().lock());
    for request in population.requests() {
        writeln!(stdout, "{}", request.combined_line())?;
    }
    stdout.flush()
}
