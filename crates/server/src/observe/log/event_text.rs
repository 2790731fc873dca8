//! Events as text, one line each. A value from a client can neither begin a line nor forge a field: anything but a
//! plain word is quoted as in JSON.

use std::borrow::Cow;
use std::fmt::{self, Display, Write};

use crate::observe::event::{AdminChange, Burst, Event, LeftOut, Level, Notice, Violation};
use crate::observe::refused_call::RefusedCall;

/// Formats an event as a line of text, or as several lines for a report, without the last line end.
pub(in crate::observe) fn text(event: &Event) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = match event {
        Event::Violation(violation) => write_violation(&mut text, violation),
        Event::Burst(burst) => write_burst(&mut text, burst),
        Event::LeftOut(left_out) => write_left_out(&mut text, left_out),
        Event::Change(change) => write_change(&mut text, change),
        Event::RefusedCall(call) => write_refused_call(&mut text, call),
        Event::Rule(rule) => write!(text, "tollgate: rule {}", one_line(&rule.promise)),
        Event::Notice(Notice { level: Level::Info, message, .. }) => write!(text, "tollgate: {}", one_line(message)),
        Event::Notice(notice) => write_report(&mut text, notice),
    };
    text
}

/// Formats an error of several lines, with a caret. Each line has the prefix.
fn write_report(text: &mut String, notice: &Notice) -> fmt::Result {
    let Notice { time, level, message } = notice;
    for (at, line) in message.lines().enumerate() {
        match at {
            0 => write!(text, "tollgate: {} time={time}: {}", level.name(), one_line(line))?,
            _ => write!(text, "\ntollgate:   {}", one_line(line))?,
        }
    }
    Ok(())
}

fn write_violation(line: &mut String, violation: &Violation) -> fmt::Result {
    write!(line, "tollgate: violation time={}", violation.time)?;
    field(line, "rule", violation.rule.as_deref())?;
    field(line, "action", Some(violation.action))?;
    if violation.shadow {
        line.write_str(" shadow=true")?;
    }
    field(line, "limit", violation.limit)?;
    field(line, "algorithm", violation.algorithm)?;
    field(line, "front_end", Some(violation.front_end))?;
    field(line, "method", violation.method)?;
    field(line, "route", violation.route.as_deref())?;
    field(line, "retry_after_ms", violation.retry_after_ms)?;
    field(line, "client", violation.client.as_deref())?;
    field(line, "source", violation.source)
}

fn write_burst(line: &mut String, burst: &Burst) -> fmt::Result {
    write!(line, "tollgate: burst time={}", burst.time)?;
    field(line, "rule", Some(&*burst.rule))?;
    field(line, "client", Some(&*burst.client))?;
    field(line, "requests", Some(burst.requests))?;
    field(line, "usual", Some(burst.usual))?;
    field(line, "window_s", Some(burst.window_s))
}

fn write_left_out(line: &mut String, left_out: &LeftOut) -> fmt::Result {
    write!(line, "tollgate: left_out time={} violations={}", left_out.time, left_out.violations)?;
    for (rule, count) in &left_out.by_rule {
        write!(line, " {}={count}", quoted(rule))?;
    }
    field(line, "lines_dropped", Some(left_out.lines_dropped))
}

fn write_change(line: &mut String, change: &AdminChange) -> fmt::Result {
    write!(line, "tollgate: change time={} change={}", change.time, change.change.name())?;
    field(line, "rule", change.rule.as_deref())?;
    field(line, "client", change.client.as_deref())?;
    field(line, "limit", change.limit.as_deref())?;
    write!(line, " done={} from={}", change.done, change.from)
}

fn write_refused_call(line: &mut String, call: &RefusedCall) -> fmt::Result {
    write!(line, "tollgate: refused_call time={} listener={} why={}", call.time, call.listener, call.why.name())?;
    write!(line, " method={} from={}", call.method, call.from)
}

fn field(line: &mut String, name: &str, value: Option<impl Display>) -> fmt::Result {
    match value {
        Some(value) => write!(line, " {name}={}", quoted(&value.to_string())),
        None => Ok(()),
    }
}

fn quoted(value: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/*".contains(&byte);
    if !value.is_empty() && value.bytes().all(is_plain) {
        return value.into();
    }
    serde_json::to_string(value).unwrap_or_default().into()
}

/// Escapes control characters, so that the text stays on one line.
fn one_line(message: &str) -> Cow<'_, str> {
    if !message.chars().any(char::is_control) {
        return message.into();
    }
    let mut line = String::with_capacity(message.len());
    for character in message.chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line.into()
}
