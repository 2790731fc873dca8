//! Properties of reading: formats are read back, and neither blocks nor threads nor the order of lines change the result.

use std::fmt::Write;
use std::net::IpAddr;
use std::time::Duration;

use proptest::prelude::*;
use tollgate_workbench::log::{LogFormat, LogOptions};

use crate::reading::{LogFiles, OwnedRecord, line, read_as};

/// Writes a record in a format.
type LineWriter = fn(&OwnedRecord) -> String;

const WRITERS: [(LogFormat, LineWriter); 7] = [
    (LogFormat::Combined, combined),
    (LogFormat::NginxJson, nginx),
    (LogFormat::EnvoyJson, envoy),
    (LogFormat::CaddyJson, caddy),
    (LogFormat::TraefikJson, traefik),
    (LogFormat::Alb, alb),
    (LogFormat::Csv, csv),
];

fn ip(record: &OwnedRecord) -> String {
    record.client_ip.map(|address| address.to_string()).unwrap_or_default()
}

/// Escapes a text as nginx does in its combined log.
fn quoted(text: &str) -> String {
    text.bytes().fold(String::new(), |mut quoted, byte| {
        match byte {
            b'"' | b'\\' | ..0x20 | 0x7f.. => write!(quoted, "\\x{byte:02X}").unwrap(),
            _ => quoted.push(char::from(byte)),
        }
        quoted
    })
}

/// Writes a JSON string, with every character that is not ASCII escaped.
fn json(text: &str) -> String {
    let mut json = "\"".to_owned();
    for unit in text.encode_utf16() {
        match unit {
            0x20..0x7f if unit != 0x22 && unit != 0x5c => json.push(char::from(unit as u8)),
            0x22 => json.push_str("\\\""),
            0x5c => json.push_str("\\\\"),
            _ => write!(json, "\\u{unit:04x}").unwrap(),
        }
    }
    json + "\""
}

fn rfc3339(record: &OwnedRecord) -> String {
    // The generated times are within one hour.
    let ns = record.time_ns - BASE_NS;
    let (minute, second, ns) = (ns / 60_000_000_000, ns / 1_000_000_000 % 60, ns % 1_000_000_000);
    format!("2026-11-16T09:{minute:02}:{second:02}.{ns:09}Z")
}

fn user(record: &OwnedRecord) -> &str {
    record.user.as_deref().unwrap_or("-")
}

fn agent(record: &OwnedRecord) -> &str {
    record.fields.first().map_or("-", |(_, value)| value)
}

fn combined(record: &OwnedRecord) -> String {
    let time = rfc3339(record);
    let (user, agent) = (user(record), quoted(agent(record)));
    let (method, target, status) = (&record.method, quoted(&record.target), record.status.unwrap());
    let clock = &time[11..19];
    format!(
        "{} - {user} [16/Nov/2026:{clock} +0000] \"{method} {target} HTTP/1.1\" {status} 1 \"-\" \"{agent}\"\n",
        ip(record)
    )
}

fn nginx(record: &OwnedRecord) -> String {
    let (user, target, agent) = (json(user(record)), json(&record.target), json(agent(record)));
    format!(
        "{{\"time_iso8601\":\"{}\",\"remote_addr\":\"{}\",\"remote_user\":{user},\"request_method\":\"{}\",\"request_uri\":{target},\"status\":{},\"http_user_agent\":{agent}}}\n",
        rfc3339(record),
        ip(record),
        record.method,
        record.status.unwrap()
    )
}

fn envoy(record: &OwnedRecord) -> String {
    let (user, target, agent) = (json(user(record)), json(&record.target), json(agent(record)));
    let peer = record.client_ip.map(|address| std::net::SocketAddr::new(address, 4_711).to_string()).unwrap();
    format!(
        "{{\"user_agent\":{agent},\"start_time\":\"{}\",\"downstream_remote_address\":\"{peer}\",\"user\":{user},\"method\":\"{}\",\"path\":{target},\"response_code\":{}}}\n",
        rfc3339(record),
        record.method,
        record.status.unwrap()
    )
}

fn caddy(record: &OwnedRecord) -> String {
    let (user, target) = (json(user(record)), json(&record.target));
    let agent = record.fields.first().map_or(String::new(), |(_, value)| format!("\"User-Agent\":[{}]", json(value)));
    format!(
        "{{\"ts\":{}.{:09},\"request\":{{\"client_ip\":\"{}\",\"method\":\"{}\",\"uri\":{target},\"headers\":{{{agent}}}}},\"user_id\":{user},\"status\":{}}}\n",
        record.time_ns / 1_000_000_000,
        record.time_ns % 1_000_000_000,
        ip(record),
        record.method,
        record.status.unwrap()
    )
}

fn traefik(record: &OwnedRecord) -> String {
    let (user, target, agent) = (json(user(record)), json(&record.target), json(agent(record)));
    format!(
        "{{\"StartUTC\":\"{}\",\"ClientHost\":\"{}\",\"ClientUsername\":{user},\"RequestMethod\":\"{}\",\"RequestPath\":{target},\"DownstreamStatus\":{},\"request_User-Agent\":{agent}}}\n",
        rfc3339(record),
        ip(record),
        record.method,
        record.status.unwrap()
    )
}

fn alb(record: &OwnedRecord) -> String {
    let (target, agent) = (quoted(&record.target), quoted(agent(record)));
    let peer = record.client_ip.map(|address| std::net::SocketAddr::new(address, 4_711).to_string()).unwrap();
    let status = record.status.unwrap();
    format!(
        "https {} app/web/1 {peer} 10.0.0.1:80 0 0 0 {status} {status} 1 1 \"{} https://a.example:443{target} HTTP/2.0\" \"{agent}\" - - -\n",
        rfc3339(record),
        record.method
    )
}

fn csv(record: &OwnedRecord) -> String {
    let value = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let (user, target, agent) = (value(user(record)), value(&record.target), value(agent(record)));
    let (method, status) = (&record.method, record.status.unwrap());
    format!("{},{},{user},{method},{target},{status},{agent}\n", record.time_ns, ip(record))
}

/// 2026-11-16T09:00:00Z.
const BASE_NS: u64 = 1_794_819_600_000_000_000;

fn records() -> impl Strategy<Value = Vec<OwnedRecord>> {
    let address = prop_oneof![any::<[u8; 4]>().prop_map(IpAddr::from), any::<[u8; 16]>().prop_map(IpAddr::from)];
    // Printable, with quotes, backslashes and letters of several bytes.
    let text = "[a-z\"\\\\ é😀=&%]{0,12}";
    let record =
        (0..3_600_000_000_000_u64, address, proptest::option::of("[a-z]{1,8}"), "[A-Z]{1,7}", text, 100..999_u16, text);
    let record = record.prop_map(|(ns, client_ip, user, method, target, status, agent)| OwnedRecord {
        time_ns: BASE_NS + ns,
        client_ip: Some(client_ip),
        user,
        method,
        host: None,
        target: format!("/{}", target.trim_end()),
        status: Some(status),
        fields: if matches!(&*agent, "" | "-") { Vec::new() } else { vec![("user-agent".to_owned(), agent)] },
    });
    proptest::collection::vec(record, 1..20).prop_map(|mut records| {
        records.sort_by_key(|record| record.time_ns);
        records
    })
}

/// What a format can tell about a record.
fn as_written(format: LogFormat, record: &OwnedRecord) -> OwnedRecord {
    // Where bytes are escaped as in nginx' log, the path has them in percent encoding.
    let percent = |target: &str| {
        target.bytes().fold(String::new(), |mut text, byte| {
            match byte {
                0x80.. => write!(text, "%{byte:02X}").unwrap(),
                _ => text.push(char::from(byte)),
            }
            text
        })
    };
    let mut record = record.clone();
    match format {
        LogFormat::Combined => {
            record.time_ns -= record.time_ns % 1_000_000_000;
            record.target = percent(&record.target);
        }
        LogFormat::Alb => {
            record.user = None;
            record.host = Some("a.example".to_owned());
            record.target = percent(&record.target);
        }
        _ => {}
    }
    record
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn records_are_read_back_from_every_format(records in records()) {
        for (format, writer) in WRITERS {
            let mut text = if format == LogFormat::Csv { "time,ip,user,method,path,status,user-agent\n".to_owned() } else { String::new() };
            text.extend(records.iter().map(writer));
            let expected: Vec<OwnedRecord> = records.iter().map(|record| as_written(format, record)).collect();
            let (read, summary) = read_as(format, &text);
            prop_assert_eq!((&read, summary.unreadable), (&expected, 0), "{}: {}", format, text);
            prop_assert_eq!(&read_as(LogFormat::Auto, &text).1.logs[0].format, &format);
        }
    }

    #[test]
    fn lines_shuffled_within_the_tolerance_are_delivered_in_order(
        steps in proptest::collection::vec((0..4_u64, 0..9_u64), 1..300),
        block_bytes in 100..2_000_usize,
    ) {
        let mut second = 0;
        let mut lines: Vec<(u64, u64)> = steps.iter().map(|(step, delay)| {
            second += step;
            (second, second + delay)
        }).collect();
        let expected: Vec<u64> = lines.iter().map(|(second, _)| *second).collect();
        // A line is written when its request ends.
        lines.sort_by_key(|(_, written)| *written);
        let text: String = lines.iter().map(|(second, _)| line(*second, "/")).collect();
        let options = LogOptions { block_bytes, out_of_order: Duration::from_secs(9), ..LogOptions::default() };
        let (records, summary) = LogFiles::new([text]).read(&options).unwrap();
        let seconds: Vec<u64> = records.iter().map(|record| (record.time_ns - crate::reading::DAY_NS) / 1_000_000_000).collect();
        prop_assert_eq!((seconds, summary.out_of_order), (expected, 0));
    }

    #[test]
    fn neither_blocks_nor_threads_change_the_result(
        logs in proptest::collection::vec(proptest::collection::vec((prop_oneof![9 => 0..40_u64, 1 => 9_000..9_040_u64], "[a-z\n]{0,3}"), 1..60), 1..4),
        block_bytes in 1..3_000_usize,
        threads in 1..5_usize,
    ) {
        // Times jump by more than the tolerance, sometimes by hours, and some lines are broken.
        let text = |(at, (second, end)): (usize, &(u64, String))| line(*second, &format!("/{at}{end}"));
        let contents: Vec<String> = logs.iter().map(|log| {
            line(20, "/first").repeat(3 * log.len() + 1) + &log.iter().enumerate().map(text).collect::<String>()
        }).collect();
        let files = LogFiles::new(contents);
        let options = LogOptions { threads: 1, ..LogOptions::default() };
        let expected = files.read(&options).unwrap();
        prop_assert_eq!(files.read(&LogOptions { block_bytes, threads, ..options }).unwrap(), expected);
    }
}
