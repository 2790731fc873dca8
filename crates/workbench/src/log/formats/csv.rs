//! Comma-separated values whose first line names the columns. Semicolons and tabs separate, too. A value in quotes may
//! contain anything but a line end.

use std::sync::Arc;

use memchr::memchr;

use crate::log::chunk::{ChunkSpan, FieldLabel, ParsedRecord};
use crate::log::parse::{FieldChoice, FieldCollector, LineContent, LineParser};
use crate::log::text::{TimeParser, escaped, parse_address};

/// The meaning of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CsvRole {
    Time,
    Client,
    User,
    Method,
    Target,
    Host,
    Status,
    /// Delivered under the column's name.
    Field,
    /// The name is empty, or repeats the meaning of an earlier column.
    Ignored,
}

/// The columns of a log.
#[derive(Debug)]
pub(in crate::log) struct CsvColumns {
    separator: u8,
    names: Arc<[String]>,
    roles: Vec<CsvRole>,
    /// The line itself, which files that were joined contain again.
    header: Vec<u8>,
}

impl CsvColumns {
    /// Reads the first of these lines.
    ///
    /// # Errors
    ///
    /// The escaped header, if no column is the time.
    pub(super) fn from_header(lines: &[u8]) -> Result<CsvColumns, String> {
        let line = lines.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let header = line.strip_suffix(b"\r").unwrap_or(line);
        let separator = *[b',', b';', b'\t'].iter().find(|separator| header.contains(separator)).unwrap_or(&b',');
        let names: Vec<String> = header
            .split(|byte| *byte == separator)
            .map(|name| String::from_utf8_lossy(name).trim_matches(['"', ' ']).to_lowercase())
            .collect();
        let mut roles: Vec<CsvRole> = Vec::new();
        for name in &names {
            let role = role(name);
            let is_repeated = !matches!(role, CsvRole::Field) && roles.contains(&role);
            roles.push(if is_repeated { CsvRole::Ignored } else { role });
        }
        if !roles.contains(&CsvRole::Time) {
            return Err(escaped(header));
        }
        Ok(CsvColumns { separator, names: names.into(), roles, header: header.to_vec() })
    }

    pub(super) fn names(&self) -> Arc<[String]> {
        Arc::clone(&self.names)
    }
}

fn role(name: &str) -> CsvRole {
    match name {
        "time" | "timestamp" | "@timestamp" | "datetime" | "date" | "ts" => CsvRole::Time,
        "ip" | "client_ip" | "client" | "remote_addr" | "remote_ip" | "clientip" => CsvRole::Client,
        "user" | "user_id" | "username" | "remote_user" => CsvRole::User,
        "method" | "request_method" | "verb" => CsvRole::Method,
        "path" | "uri" | "url" | "target" | "request_uri" => CsvRole::Target,
        "host" | "authority" | "hostname" => CsvRole::Host,
        "status" | "status_code" | "code" => CsvRole::Status,
        "" => CsvRole::Ignored,
        _ => CsvRole::Field,
    }
}

/// Parses the lines below the header.
pub(super) struct CsvParser<'c> {
    columns: &'c CsvColumns,
    times: TimeParser,
    /// For each column, whether it is delivered as a field.
    is_delivered: Vec<bool>,
}

impl<'c> CsvParser<'c> {
    pub(super) fn new(columns: &'c CsvColumns, choice: &FieldChoice) -> CsvParser<'c> {
        let is_delivered = columns.names.iter().map(|name| choice.contains(name.as_bytes())).collect();
        CsvParser { columns, times: TimeParser::default(), is_delivered }
    }
}

impl LineParser for CsvParser<'_> {
    fn parse(
        &mut self,
        line: &mut [u8],
        start: usize,
        record: &mut ParsedRecord,
        fields: &mut FieldCollector<'_>,
    ) -> Result<LineContent, &'static str> {
        if *line == *self.columns.header {
            return Ok(LineContent::Other);
        }
        let mut next = Some(0);
        let mut has_time = false;
        for (number, role) in (0..).zip(&self.columns.roles) {
            let Some(at) = next else { break };
            let value = next_value(line, at, self.columns.separator)?;
            next = value.next;
            let text = &line[value.start..value.end];
            if text.is_empty() || text == b"-" {
                continue;
            }
            let span = ChunkSpan::new(start + value.start, start + value.end);
            match role {
                CsvRole::Time => {
                    record.time_ns = self.times.any(text).ok_or("the time is neither RFC 3339 nor a number")?;
                    has_time = true;
                }
                CsvRole::Client => {
                    record.client_ip = Some(parse_address(text).ok_or("the client is not an address")?);
                }
                CsvRole::User => record.user = span,
                CsvRole::Method => record.method = span,
                CsvRole::Target => record.target = span,
                CsvRole::Host => record.host = span,
                CsvRole::Status => record.status = status(text).ok_or("the status is not a number up to 999")?,
                CsvRole::Field if self.is_delivered[number as usize] => fields.push(FieldLabel::Column(number), span),
                CsvRole::Field | CsvRole::Ignored => {}
            }
        }
        if next.is_some() {
            return Err("the line has more values than the first line has names");
        }
        if has_time { Ok(LineContent::Request) } else { Err("the line has no time") }
    }
}

/// A value, without its quotes.
struct CsvValue {
    start: usize,
    end: usize,
    /// Where the next value begins.
    next: Option<usize>,
}

fn next_value(line: &mut [u8], at: usize, separator: u8) -> Result<CsvValue, &'static str> {
    if line.get(at) == Some(&b'"') {
        return next_quoted(line, at + 1, separator);
    }
    let length = memchr(separator, &line[at..]);
    let end = length.map_or(line.len(), |length| at + length);
    Ok(CsvValue { start: at, end, next: length.map(|_| end + 1) })
}

/// Reads a value in quotes, in which two quotes stand for one.
fn next_quoted(line: &mut [u8], start: usize, separator: u8) -> Result<CsvValue, &'static str> {
    let (mut from, mut end) = (start, start);
    loop {
        let length = memchr(b'"', &line[from..]).ok_or("a value has no closing quote")?;
        line.copy_within(from..from + length, end);
        (from, end) = (from + length + 1, end + length);
        match line.get(from) {
            Some(b'"') => {
                line[end] = b'"';
                (from, end) = (from + 1, end + 1);
            }
            None => break,
            Some(next) if *next == separator => break,
            Some(_) => return Err("a value continues after its closing quote"),
        }
    }
    line[end..from].fill(b' ');
    let next = (from < line.len()).then_some(from + 1);
    Ok(CsvValue { start, end, next })
}

fn status(text: &[u8]) -> Option<u16> {
    let is_status = text.len() <= 3 && text.iter().all(u8::is_ascii_digit);
    is_status.then(|| text.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0')))
}
