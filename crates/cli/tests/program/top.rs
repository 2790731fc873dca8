//! `tollgate top` in a terminal, driven by keys, and `tollgate status`.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tollgate_testbed::TemporaryDirectory;

use crate::client::request;
use crate::reload::Directory;
use crate::running::{Running, tollgate};

const POLICY: &str = "version: 1
rules:
  - { name: per-ip, key: client_ip, limit: 2/h }
  - { name: next, key: client_ip, limit: 1/h, shadow: true }
  - { name: total, limit: 1000/h }
";

const SCREEN: &str = "\
tollgate VERSION  URL  live
0 decisions/s   0 % refused   latency not measured yet
store ok: Counters are in this process: fewer than 1,000 of 1,000,000 keys are in use.
policy loaded at ..
 allowed/s, at most .. in this minute ───────────── refused/s, at most .. in this minute ─────────────



▸ rules (3) ────────────────────────────────────────────────────────────────────────────────────────
rule                        limit                        allowed/s   refused/s    refused   headroom
per-ip                      2/h burst 2                          0           0          3          -
next                        1/h burst 1 (shadow)                 0           0          4          -
total                       1000/h burst 1000                    0           0          0          -






  clients with the most refused requests ───────────────────────────────────────────────────────────
client                        rule                           refused/min ↓                 last seen
203.0.113.9                   next                                       ..  ..
203.0.113.9                   per-ip                                     ..  ..
q quit  p pause  Tab table  s sort  r reverse  / filter  ? help";

const HELP: &str = "\
┌keys──────────────────────────────────────────────────┐
│   q, Esc  quit                                       │
│ p, space  pause and continue                         │
│      Tab  change between rules and clients           │
│        s  sort by the next column                    │
│        r  reverse the order                          │
│        /  filter by name; Enter keeps it, Esc ends it│
│      ↑ ↓  scroll                                     │
│        ?  help                                       │
│      (7)  what shadow rules would refuse             │
│           any key closes this help                   │
└──────────────────────────────────────────────────────┘";

/// Far longer than a status takes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A terminal of its own server of tmux. When it ends, the program in it gets SIGHUP.
struct Terminal {
    directory: TemporaryDirectory,
}

impl Terminal {
    fn start(command: &str) -> Terminal {
        let terminal = Terminal { directory: TemporaryDirectory::new("tmux").unwrap() };
        // When the program ends, its exit code stays on the screen.
        let script = format!("{command}; echo \"exit code $?\"; sleep 600");
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "24", "sh", "-c", &script]);
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.directory.path().join("socket")).args(arguments);
        // The borders and sparklines are not ASCII.
        command.env("LC_ALL", "C.UTF-8").env("TERM", "xterm-256color").env_remove("TMUX").stdin(Stdio::null());
        let output = command.output().unwrap_or_else(|error| panic!("tmux (Debian's package tmux): {error}"));
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn press(&self, keys: &str) {
        self.tmux(&["send-keys", keys]);
    }

    fn screen(&self) -> Vec<String> {
        self.tmux(&["capture-pane", "-p"]).lines().map(str::to_owned).collect()
    }

    /// Waits until the screen fulfils a condition, and returns it.
    #[track_caller]
    fn wait_for(&self, what: &str, condition: impl Fn(&[String]) -> bool) -> Vec<String> {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if condition(&screen) {
                return screen;
            }
            assert!(begun.elapsed() < TIMEOUT, "no {what}:\n{}", screen.join("\n"));
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn serve(name: &str) -> (Running, Directory) {
    let directory = Directory::new(name);
    let policy = directory.write("policy.yaml", POLICY);
    (Running::serve_with(&["--grpc", "off", "--resp", "off", "--log-identities", "plain", &policy]), directory)
}

fn check(service: &Running, ip: &str, times: usize) {
    for _ in 0..times {
        request(service.http, "POST", "/v1/check", &format!(r#"{{"ip":"{ip}"}}"#));
    }
}

/// The rows of the rules: what is between the two headings of tables.
fn rule_names(screen: &[String]) -> Vec<&str> {
    let rows = screen.iter().skip_while(|line| !line.starts_with("rule ")).skip(1);
    rows.take_while(|line| !line.trim().is_empty()).filter_map(|line| line.split_whitespace().next()).collect()
}

/// The screen with `..` for what differs between runs: the address, times, estimates, and rates of a part of a minute.
fn snapshot(screen: &[String], url: &str) -> String {
    let is_bar = |letter: char| ('\u{2581}'..='\u{2588}').contains(&letter);
    let line = |line: &String| {
        let line = line.replace(url, "URL").replace(env!("CARGO_PKG_VERSION"), "VERSION").replace(is_bar, " ");
        let is_client = line.starts_with("203.");
        let words = line.split(' ').scan("", |before, word| {
            let is_number = word.parse::<u64>().is_ok();
            let differs = word.ends_with('Z') || (is_number && (is_client || *before == "most"));
            *before = word;
            Some(if differs { ".." } else { word })
        });
        words.collect::<Vec<_>>().join(" ").trim_end().to_owned()
    };
    screen.iter().map(line).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

#[test]
fn top_shows_a_service_and_obeys_keys() {
    let (service, policy) = serve("top");
    let url = format!("http://{}", service.admin);
    let terminal = Terminal::start(&format!("{} top --admin {url}", env!("CARGO_BIN_EXE_tollgate")));
    terminal.wait_for("limits", |screen| screen.iter().any(|line| line.contains("1000/h")));
    check(&service, "203.0.113.9", 5);

    // Refusals of the last second, and then none any more: the rows no longer change.
    let is_settled = |screen: &[String]| {
        if !screen[1].starts_with("0 decisions/s   0 % refused   latency not measured") {
            return false;
        }
        let mut rows = screen.iter().map(|line| line.split_whitespace().collect::<Vec<_>>());
        rows.any(|row| row.starts_with(&["per-ip", "2/h", "burst", "2", "0", "0", "3"]))
    };
    let screen = terminal.wait_for("three refusals", is_settled);
    assert_eq!(snapshot(&screen, &url), SCREEN, "{}", screen.join("\n"));
    assert!(screen[0].ends_with(&format!("  {url}  live")), "{screen:#?}");
    assert!(screen[2].starts_with("store ok: Counters are in this process: "), "{screen:#?}");
    assert_eq!(rule_names(&screen), ["per-ip", "next", "total"], "{screen:#?}");
    assert!(screen.iter().any(|line| line.starts_with("203.0.113.9 ")), "{screen:#?}");

    terminal.press("s");
    terminal.wait_for("rules by refusals", |screen| rule_names(screen)[..] == ["next", "per-ip", "total"]);
    terminal.press("r");
    terminal.wait_for("the reverse order", |screen| rule_names(screen)[..] == ["total", "per-ip", "next"]);
    terminal.press("/");
    terminal.press("tot");
    terminal.press("Enter");
    terminal.wait_for("the filtered rule", |screen| rule_names(screen)[..] == ["total"]);
    terminal.press("/");
    terminal.press("Escape");
    terminal.wait_for("all rules", |screen| rule_names(screen).len() == 3);
    terminal.press("p");
    terminal.wait_for("a pause", |screen| screen[0].ends_with("  paused"));
    terminal.press("?");
    let help = terminal.wait_for("help", |screen| screen.iter().any(|line| line.contains("pause and continue")));
    let dialog = help[6..18].iter().map(|line| line.chars().skip(22).take(56).collect::<String>());
    assert_eq!(dialog.collect::<Vec<_>>().join("\n"), HELP, "{}", help.join("\n"));
    terminal.press("x");
    terminal.press("p");
    terminal.wait_for("the live view", |screen| screen[0].ends_with("  live"));

    policy.write("policy.yaml", &POLICY.replace("1000/h", "3000/h"));
    service.signal("HUP");
    terminal.wait_for("the changed limit", |screen| screen.iter().any(|line| line.contains("3000/h")));

    service.signal("KILL");
    terminal.wait_for("a lost connection", |screen| screen[0].ends_with("  connection lost, trying again"));
    terminal.press("q");
    terminal.wait_for("exit code", |screen| screen.iter().any(|line| line == "exit code 0"));
}

#[test]
fn signal_restores_the_terminal() {
    let (service, policy) = serve("top-signal");
    let (url, pid_file) = (format!("http://{}", service.admin), policy.write("pid", ""));
    let program = env!("CARGO_BIN_EXE_tollgate");
    let script = format!("sh -c 'echo $$ >{pid_file}; exec {program} top --admin {url}'; stty -a");
    let start = || {
        let terminal = Terminal::start(&script);
        terminal.wait_for("view", |screen| screen[0].ends_with("  live"));
        (terminal, std::fs::read_to_string(&pid_file).unwrap())
    };
    let (terminal, pid) = start();
    assert!(Command::new("kill").args(["-TERM", pid.trim()]).status().unwrap().success());
    let screen = terminal.wait_for("exit code", |screen| screen.iter().any(|line| line.starts_with("exit code ")));
    let settings: Vec<&str> = screen.iter().flat_map(|line| line.split_whitespace()).collect();
    assert!(settings.contains(&"icanon") && settings.contains(&"echo"), "{screen:#?}");
    drop(terminal);

    // A terminal that is closed ends the program too.
    let (terminal, pid) = start();
    drop(terminal);
    let begun = Instant::now();
    while std::path::Path::new(&format!("/proc/{}", pid.trim())).exists() {
        assert!(begun.elapsed() < TIMEOUT, "the program still runs");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn status_is_printed_once_without_a_terminal() {
    let (service, _policy) = serve("status");
    check(&service, "203.0.113.9", 5);
    let url = format!("http://{}", service.admin);
    for command in ["status", "top"] {
        let output = tollgate(&[command, "--admin", &url]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(text.starts_with(&format!("tollgate {} at {url}\n", env!("CARGO_PKG_VERSION"))), "{text}");
        assert!(text.contains("\n  in all         2 allowed, 3 refused\n"), "{text}");
        assert!(text.contains("\n  store          ok: Counters are in this process: "), "{text}");
        let row = text.lines().find(|line| line.starts_with("  per-ip ")).unwrap();
        assert_eq!(row.split_whitespace().collect::<Vec<_>>()[3..6], ["2", "3", "0"], "{text}");
        assert!(text.contains("  203.0.113.9  "), "{text}");
    }
    let json = tollgate(&["status", "--admin", &url, "--format", "json"]).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["decisions"]["refused"], 3, "{json}");
}
