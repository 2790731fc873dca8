//! The machine that the figures were measured on.

use std::fs;
use std::process::Command;

/// Prints processor, cores, kernel and compiler.
pub(crate) fn print_facts() {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    println!("| machine | |");
    println!("| --- | --- |");
    println!("| processor | {} |", field_of("/proc/cpuinfo", "model name"));
    println!("| cores | {cores} |");
    println!("| last-level cache | {} |", read("/sys/devices/system/cpu/cpu0/cache/index3/size"));
    println!("| memory | {} |", field_of("/proc/meminfo", "MemTotal"));
    println!("| large pages | {} |", read("/sys/kernel/mm/transparent_hugepage/enabled"));
    println!("| kernel | {} |", read("/proc/sys/kernel/osrelease"));
    println!("| compiler | {} |", compiler());
    println!("| load average before | {} |", read("/proc/loadavg"));
}

fn read(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

fn field_of(path: &str, name: &str) -> String {
    let text = read(path);
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_once(':')).map_or("unknown", |(_, value)| value.trim()).to_owned()
}

fn compiler() -> String {
    let output = Command::new("rustc").arg("--version").output();
    output.map_or_else(|_| "unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
