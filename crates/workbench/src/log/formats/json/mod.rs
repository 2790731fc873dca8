//! Logs with a JSON object in each line.

mod cursor;
mod dialects;

use std::marker::PhantomData;
use std::ops::Range;

pub(super) use self::dialects::{CaddyDialect, EnvoyDialect, EventsDialect, JsonDialect, NginxDialect, TraefikDialect};

use self::cursor::{JsonCursor, JsonValue};
use self::dialects::JsonRole;
use super::request_line::read_request_line;
use crate::log::chunk::{ChunkSpan, FieldLabel, ParsedRecord};
use crate::log::parse::{FieldCollector, LineContent, LineParser};
use crate::log::text::{TimeParser, parse_address, unescape_json};

/// Parses JSON with the names of one server.
pub(super) struct JsonParser<D> {
    times: TimeParser,
    dialect: PhantomData<D>,
}

impl<D: JsonDialect> JsonParser<D> {
    pub(super) fn new(_: D) -> JsonParser<D> {
        JsonParser { times: TimeParser::default(), dialect: PhantomData }
    }
}

/// The ranks of the members that a record was read from; 0 for none.
#[derive(Default)]
struct Ranks {
    time: u8,
    client: u8,
    user: u8,
    method: u8,
    target: u8,
    host: u8,
    status: u8,
    /// Whether an event is not about a request.
    is_other_event: bool,
}

/// Where a line is read to.
struct JsonLine<'l, 'f, 'c> {
    bytes: &'l mut [u8],
    /// The position of the line in the block.
    start: usize,
    record: &'l mut ParsedRecord,
    fields: &'f mut FieldCollector<'c>,
    ranks: Ranks,
}

impl<D: JsonDialect> LineParser for JsonParser<D> {
    fn parse(
        &mut self,
        line: &mut [u8],
        start: usize,
        record: &mut ParsedRecord,
        fields: &mut FieldCollector<'_>,
    ) -> Result<LineContent, &'static str> {
        let mut line = JsonLine { bytes: line, start, record, fields, ranks: Ranks::default() };
        let mut cursor = JsonCursor::object(line.bytes, 0).ok_or("expected a JSON object")?;
        self.read_object(&mut line, &mut cursor, true)?;
        if !line.bytes[cursor.end()..].iter().all(u8::is_ascii_whitespace) {
            return Err("the line has text after its JSON object");
        }
        let Ranks { time, client, method, target, is_other_event, .. } = line.ranks;
        if is_other_event {
            return Ok(LineContent::Other);
        }
        if client + method + target == 0 {
            return if D::HAS_MESSAGES { Ok(LineContent::Other) } else { Err("the JSON object describes no request") };
        }
        if time == 0 { Err("the JSON object has no time") } else { Ok(LineContent::Request) }
    }
}

impl<D: JsonDialect> JsonParser<D> {
    /// Reads the members of an object. Only the outermost one may nest, because recursion needs a bound.
    fn read_object(
        &mut self,
        line: &mut JsonLine<'_, '_, '_>,
        cursor: &mut JsonCursor,
        may_nest: bool,
    ) -> Result<(), &'static str> {
        while let Some(name) = cursor.name(line.bytes)? {
            let role = D::role(&line.bytes[name.clone()]);
            if (role == JsonRole::Headers || role == JsonRole::Nested && may_nest)
                && let Some(mut inner) = cursor.enter_object(line.bytes)
            {
                self.read_nested(line, role, &mut inner)?;
                cursor.leave(&inner);
                continue;
            }
            match cursor.value(line.bytes)? {
                _ if role == JsonRole::Ignored => {}
                JsonValue::Text { range, is_escaped } => {
                    let range = line.unescaped(range, is_escaped);
                    self.read_text(line, role, name, range)?;
                }
                JsonValue::Bare(range) if line.bytes[range.clone()] != *b"null" => {
                    self.read_text(line, role, name, range)?;
                }
                JsonValue::Bare(_) | JsonValue::Nested(_) => {}
            }
        }
        Ok(())
    }

    fn read_nested(
        &mut self,
        line: &mut JsonLine<'_, '_, '_>,
        role: JsonRole,
        cursor: &mut JsonCursor,
    ) -> Result<(), &'static str> {
        match role {
            JsonRole::Headers => line.read_headers(cursor),
            _ => self.read_object(line, cursor, false),
        }
    }

    fn read_text(
        &mut self,
        line: &mut JsonLine<'_, '_, '_>,
        role: JsonRole,
        name: Range<usize>,
        value: Range<usize>,
    ) -> Result<(), &'static str> {
        let text = &line.bytes[value.clone()];
        if matches!(text, b"" | b"-") {
            return Ok(());
        }
        let span = ChunkSpan::new(line.start + value.start, line.start + value.end);
        let (record, ranks) = (&mut *line.record, &mut line.ranks);
        match role {
            JsonRole::Time(rank) if outranks(rank, &mut ranks.time) => {
                record.time_ns = self.times.any(text).ok_or("the time is neither RFC 3339 nor a number")?;
            }
            JsonRole::Client(rank) => line.read_client(rank, value),
            JsonRole::User(rank) if outranks(rank, &mut ranks.user) => record.user = span,
            JsonRole::Method(rank) if outranks(rank, &mut ranks.method) => record.method = span,
            JsonRole::Target(rank) if outranks(rank, &mut ranks.target) => record.target = span,
            JsonRole::Host(rank) if outranks(rank, &mut ranks.host) => record.host = span,
            JsonRole::Status(rank) if outranks(rank, &mut ranks.status) => {
                record.status = status(text).ok_or("the status is not a number up to 999")?;
            }
            JsonRole::RequestLine => line.read_request(value),
            JsonRole::Header(prefix) => line.push_header(name.start + prefix..name.end, span),
            JsonRole::Field => line.push_field(name, span),
            JsonRole::Event => ranks.is_other_event = text != b"violation",
            _ => {}
        }
        Ok(())
    }
}

/// Returns whether a member counts more than the one that was read before, and remembers it.
fn outranks(rank: u8, last: &mut u8) -> bool {
    let outranks = rank > *last;
    *last = rank.max(*last);
    outranks
}

fn status(text: &[u8]) -> Option<u16> {
    let is_status = text.len() <= 3 && text.iter().all(u8::is_ascii_digit);
    is_status.then(|| text.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0')))
}

impl JsonLine<'_, '_, '_> {
    /// Unescapes a string in place.
    fn unescaped(&mut self, range: Range<usize>, is_escaped: bool) -> Range<usize> {
        if !is_escaped {
            return range;
        }
        range.start..range.start + unescape_json(&mut self.bytes[range])
    }

    /// Reads an address. What is not an address, as the hash in an event, is a field.
    fn read_client(&mut self, rank: u8, value: Range<usize>) {
        if !outranks(rank, &mut self.ranks.client) {
            return;
        }
        self.record.client_ip = parse_address(&self.bytes[value.clone()]);
        if self.record.client_ip.is_none() && self.fields.choice.contains(b"client") {
            let span = ChunkSpan::new(self.start + value.start, self.start + value.end);
            self.fields.push(FieldLabel::Fixed("client"), span);
        }
    }

    /// Reads a request line, unless its parts have their own members.
    fn read_request(&mut self, value: Range<usize>) {
        let (method, target) = (self.record.method, self.record.target);
        read_request_line(&mut self.bytes[value.clone()], self.start + value.start, self.record);
        if self.ranks.method > 1 {
            self.record.method = method;
        }
        if self.ranks.target > 2 {
            self.record.target = target;
        }
        self.ranks.method = self.ranks.method.max(1);
        self.ranks.target = self.ranks.target.max(2);
    }

    /// Reads header fields, whose values are strings or arrays of strings.
    fn read_headers(&mut self, cursor: &mut JsonCursor) -> Result<(), &'static str> {
        while let Some(name) = cursor.name(self.bytes)? {
            let Some(mut values) = cursor.enter_array(self.bytes) else {
                let value = cursor.value(self.bytes)?;
                self.push_header_value(name, value);
                continue;
            };
            while let Some(value) = values.element(self.bytes)? {
                self.push_header_value(name.clone(), value);
            }
            cursor.leave(&values);
        }
        Ok(())
    }

    fn push_header_value(&mut self, name: Range<usize>, value: JsonValue) {
        if let JsonValue::Text { range, is_escaped } = value {
            let range = self.unescaped(range, is_escaped);
            self.push_header(name, ChunkSpan::new(self.start + range.start, self.start + range.end));
        }
    }

    fn push_header(&mut self, name: Range<usize>, value: ChunkSpan) {
        for letter in &mut self.bytes[name.clone()] {
            *letter = if *letter == b'_' { b'-' } else { letter.to_ascii_lowercase() };
        }
        self.push_named(name, value);
    }

    fn push_field(&mut self, name: Range<usize>, value: ChunkSpan) {
        self.bytes[name.clone()].make_ascii_lowercase();
        self.push_named(name, value);
    }

    fn push_named(&mut self, name: Range<usize>, value: ChunkSpan) {
        if self.fields.choice.contains(&self.bytes[name.clone()]) {
            let name = ChunkSpan::new(self.start + name.start, self.start + name.end);
            self.fields.push(FieldLabel::Text(name), value);
        }
    }
}
