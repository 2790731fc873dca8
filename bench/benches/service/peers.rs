//! Other programs, if they are installed.

use crate::process::Process;

pub(crate) fn redis() -> Option<Process> {
    let arguments = |port: u16| {
        ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"]
            .map(str::to_owned)
            .into_iter()
            .chain([port.to_string()])
            .collect()
    };
    Process::peer("redis-server", arguments)
}

/// throttlecrab-server, from the PATH or from `THROTTLECRAB`, with one of its front ends.
pub(crate) fn throttlecrab(front_end: &str) -> Option<Process> {
    let program = std::env::var("THROTTLECRAB").unwrap_or_else(|_| "throttlecrab-server".to_owned());
    Process::peer(&program, |port| {
        vec![
            format!("--{front_end}"),
            format!("--{front_end}-host"),
            "127.0.0.1".to_owned(),
            format!("--{front_end}-port"),
            port.to_string(),
        ]
    })
}
