use tollgate_testbed::{RedisServer, Reply};

/// What a server has done since its start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerLoad {
    pub(crate) scripts: u64,
    pub(crate) script_us: u64,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    /// The most memory used until now.
    pub(crate) peak_memory: u64,
}

impl ServerLoad {
    pub(crate) fn of(server: &RedisServer) -> ServerLoad {
        let info = ["commandstats", "stats", "memory"].map(|section| match server.command(&["INFO", section]) {
            Ok(Reply::Text(text)) => text,
            other => panic!("INFO: {other:?}"),
        });
        let value = |name: &str| {
            let line = info
                .iter()
                .flat_map(|section| section.lines())
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or_default().to_owned()
        };
        let scripts = value("cmdstat_evalsha");
        let of_scripts = |name: &str| {
            let part = scripts.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
            part.map_or(0, |number| number.parse().unwrap())
        };
        let number = |name: &str| value(name).parse().unwrap_or(0);
        ServerLoad {
            scripts: of_scripts("calls"),
            script_us: of_scripts("usec"),
            received: number("total_net_input_bytes"),
            sent: number("total_net_output_bytes"),
            peak_memory: number("used_memory_peak"),
        }
    }

    pub(crate) fn since(self, before: ServerLoad) -> ServerLoad {
        ServerLoad {
            scripts: self.scripts - before.scripts,
            script_us: self.script_us - before.script_us,
            received: self.received - before.received,
            sent: self.sent - before.sent,
            peak_memory: self.peak_memory.saturating_sub(before.peak_memory),
        }
    }
}

/// Records all scripts that take at least a millisecond.
pub(crate) fn record_slow_scripts(server: &RedisServer) {
    for command in [["CONFIG", "SET", "slowlog-log-slower-than", "1000"], ["CONFIG", "SET", "slowlog-max-len", "1000"]]
    {
        server.command(&command).unwrap();
    }
    server.command(&["SLOWLOG", "RESET"]).unwrap();
}

/// Returns the longest time of a recorded script, in microseconds.
pub(crate) fn longest_script_us(server: &RedisServer) -> u64 {
    let Reply::Array(entries) = server.command(&["SLOWLOG", "GET", "1000"]).unwrap() else { return 0 };
    let duration = |entry: &Reply| match entry {
        Reply::Array(parts) => match parts.get(2) {
            Some(Reply::Integer(us)) => u64::try_from(*us).ok(),
            _ => None,
        },
        _ => None,
    };
    entries.iter().filter_map(duration).max().unwrap_or(0)
}
