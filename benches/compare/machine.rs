//! What ran: date, machine, versions. No names of hosts, users or folders.

use std::fs;
use std::process::Command;

fn output(program: &str, arguments: &[&str]) -> String {
    let folder = env!("CARGO_MANIFEST_DIR");
    let output = Command::new(program).args(arguments).current_dir(folder).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

pub fn today() -> String {
    jiff::Zoned::now().date().to_string()
}

pub fn commit() -> String {
    output("git", &["describe", "--always", "--dirty=+"])
}

/// Processor, cores, memory, system, file system of the stores.
pub fn description() -> String {
    let processor = field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = field("/proc/meminfo", "MemTotal").and_then(|kb| kb.split(' ').next()?.parse::<u64>().ok());
    let memory = memory.map_or(0, |kb| (kb as f64 / 1024.0 / 1024.0).round() as u64);
    let system = output("uname", &["-sr"]);
    let disk = output("stat", &["-f", "-c", "%T", env!("CARGO_TARGET_TMPDIR")]);
    format!("{cores} cores of {processor}, {memory} GB, {system}, {disk}")
}

/// Of the five minutes before now.
pub fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').nth(1).and_then(|load| load.parse().ok()).unwrap_or_default()
}

pub fn versions() -> String {
    let lock = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.lock")).unwrap_or_default();
    let locked = |name: &str| {
        let start = lock.find(&format!("name = \"{name}\"\n"))?;
        lock[start..].split('"').nth(3).map(|version| format!("{name} {version}"))
    };
    let rust = output("rustc", &["-V"]);
    let mut versions = vec![rust.split(' ').take(2).collect::<Vec<_>>().join(" ")];
    versions.extend(["redb", "tantivy", "rusqlite"].into_iter().filter_map(locked));
    versions.push(format!("SQLite {}", rusqlite::version()));
    versions.join(", ")
}
