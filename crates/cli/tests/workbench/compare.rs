use crate::program::{Folder, POPULATION, assert_chart, assert_report};

#[test]
fn boundary_report_shows_twice_the_limit_in_fixed_windows() {
    let run = Folder::empty().run(&["compare", "--limit", "100/min", "--traffic", "boundary"]);
    assert_report("compare-boundary.txt", run.success());
}

#[test]
fn page_shows_the_boundary_report() {
    let report = include_str!("reports/compare-boundary.txt");
    assert!(include_str!("../../../../docs/workbench.md").contains(report), "expected in a console block:\n{report}");
}

#[test]
fn json_has_the_figures_of_every_algorithm() {
    let arguments = ["compare", "--limit", "100/min", "--traffic", "boundary", "--format", "json"];
    let answer = Folder::empty().run(&arguments).json();
    assert_eq!((&answer["limit"], &answer["requests"]), (&"100/min".into(), &200.into()));
    let fixed = &answer["algorithms"][3];
    let expected = serde_json::json!({
        "algorithm": "fixed-window", "admitted": 200, "refused": 0, "max_in_window": 200, "max_in_second": 200,
        "wrong_percent": 50.0, "longest_wait_ms": 0, "longest_delay_ms": 0, "longest_retry_ms": 0,
        "bytes_per_client": 32,
    });
    assert_eq!(*fixed, expected);
    let log = &answer["algorithms"][4];
    assert_eq!((&log["algorithm"], &log["admitted"]), (&"sliding-window-log".into(), &100.into()));
}

#[test]
fn every_pattern_and_a_log_give_six_algorithms() {
    let folder = Folder::with_log();
    let sources = [["--traffic", "burst"], ["--traffic", "steady"], ["--traffic", "poisson"], ["--log", "access.log"]];
    for source in sources {
        let arguments = [&["compare", "--limit", "20/min burst 10", "--format", "json"][..], &source].concat();
        let answer = folder.run(&arguments).json();
        let algorithms = answer["algorithms"].as_array().unwrap();
        let sums = algorithms.iter().map(|one| one["admitted"].as_u64().unwrap() + one["refused"].as_u64().unwrap());
        assert_eq!(algorithms.len(), 6);
        assert!(sums.into_iter().all(|sum| answer["requests"] == sum && sum > 0), "{source:?}");
    }
    let answer = folder.run(&["compare", "--limit", "20/min", "--log", "access.log", "--format", "json"]).json();
    assert_eq!(answer["requests"], POPULATION.requests().len());
    assert_eq!(answer["clients"], 182);
}

#[test]
fn chart_is_written_as_its_name_ends() {
    let folder = Folder::empty();
    for (name, beginning) in [("chart.svg", &b"<svg "[..]), ("chart.PNG", &b"\x89PNG"[..])] {
        let run = folder.run(&["compare", "--limit", "100/min", "--traffic", "boundary", "--plot", name]);
        assert!(!run.success().contains('█'), "the sketch is for runs without a chart");
        assert_eq!(run.stderr, format!("tollgate: wrote {name}\n"));
        assert!(std::fs::read(folder.path(name)).unwrap().starts_with(beginning), "{name}");
    }
    assert_chart("compare-boundary.svg", &folder.read("chart.svg"));
}

#[test]
fn wrong_usage_is_explained() {
    let folder = Folder::empty();
    let fails =
        |arguments: &[&str], shown: &[&str]| folder.run(&[&["compare"], arguments].concat()).assert_fails(2, shown);
    fails(&["--limit", "100/min"], &["--log <LOG>...|--traffic <PATTERN>"]);
    fails(&["--traffic", "burst"], &["--limit <LIMIT>"]);
    fails(&["--limit", "100", "--traffic", "burst"], &["expected `/` or `per`, as in 100/s"]);
    fails(&["--limit", "1/s", "--traffic", "burst", "--log", "x"], &["cannot be used with"]);
    fails(&["--limit", "1/s", "--traffic", "burst", "--plot", "chart.pdf"], &["a file name that ends in .svg or .png"]);
    fails(&["--limit", "2000000/day", "--traffic", "burst"], &["2000000/day is not possible under every algorithm"]);
    fails(&["--limit", "1/s", "--log", "x", "--log-format", "apache"], &["`apache` is not a log format"]);
}

#[test]
fn chart_that_cannot_be_written_is_a_failure() {
    let run = Folder::empty().run(&["compare", "--limit", "1/s", "--traffic", "burst", "--plot", "none/chart.svg"]);
    assert_eq!(run.code, Some(3));
    assert!(run.stderr.contains("error: cannot write none/chart.svg: "), "{}", run.stderr);
}
