//! The formats of logs, and their names on the command line.

use std::fmt;
use std::str::FromStr;

/// The format of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Detected from the first lines of each log.
    #[default]
    Auto,
    /// The Common and the Combined Log Format of Apache and nginx, possibly with more fields at the end.
    Combined,
    /// JSON with the names of nginx' variables.
    NginxJson,
    /// JSON with the names that Envoy's documentation uses.
    EnvoyJson,
    /// The JSON log of Caddy.
    CaddyJson,
    /// The JSON log of Traefik.
    TraefikJson,
    /// The access log of an AWS Application Load Balancer.
    Alb,
    /// Comma-separated values, with the names of the columns in the first line.
    Csv,
    /// The events of `tollgate serve`: each violation is a request.
    Events,
}

impl LogFormat {
    /// All formats except [`Auto`](LogFormat::Auto).
    pub const ALL: [LogFormat; 8] = [
        LogFormat::Combined,
        LogFormat::NginxJson,
        LogFormat::EnvoyJson,
        LogFormat::CaddyJson,
        LogFormat::TraefikJson,
        LogFormat::Alb,
        LogFormat::Csv,
        LogFormat::Events,
    ];

    /// Returns the name of the format on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            LogFormat::Auto => "auto",
            LogFormat::Combined => "combined",
            LogFormat::NginxJson => "nginx-json",
            LogFormat::EnvoyJson => "envoy-json",
            LogFormat::CaddyJson => "caddy-json",
            LogFormat::TraefikJson => "traefik-json",
            LogFormat::Alb => "alb",
            LogFormat::Csv => "csv",
            LogFormat::Events => "events",
        }
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LogFormat {
    type Err = UnknownLogFormat;

    fn from_str(name: &str) -> Result<LogFormat, UnknownLogFormat> {
        let formats = [LogFormat::Auto].into_iter().chain(LogFormat::ALL);
        formats.into_iter().find(|format| format.name() == name).ok_or_else(|| UnknownLogFormat(name.to_owned()))
    }
}

/// The name of a format that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a log format: expected auto, combined, nginx-json, envoy-json, caddy-json, traefik-json, alb, csv or events"
)]
pub struct UnknownLogFormat(String);

#[cfg(test)]
mod tests {
    use super::LogFormat;

    #[test]
    fn formats_are_parsed_from_their_names() {
        for format in [LogFormat::Auto].into_iter().chain(LogFormat::ALL) {
            assert_eq!(format.name().parse(), Ok(format));
        }
    }

    #[test]
    fn unknown_names_are_rejected_with_all_names() {
        let error = "apache".parse::<LogFormat>().unwrap_err().to_string();
        assert!(error.starts_with("`apache` is not a log format"), "{error}");
        for format in LogFormat::ALL {
            assert!(error.contains(format.name()), "{error}");
        }
    }
}
