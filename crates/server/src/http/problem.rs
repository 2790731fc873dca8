use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tollgate::limiter::KeyError;

use crate::observe::CallRefusal;
use crate::request_body::{BodyError, BodyLimits};

const PROBLEM_JSON: &str = "application/problem+json";

/// The error of a call, as RFC 9457 problem details.
#[derive(Clone, Debug)]
pub(super) struct ProblemDetails {
    status: StatusCode,
    detail: String,
    member: Option<String>,
}

#[derive(Serialize)]
struct ProblemBody<'a> {
    /// `about:blank`: the status describes the problem, and the detail has the rest.
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<&'a str>,
}

impl ProblemDetails {
    #[cfg(test)]
    pub(super) fn detail(&self) -> &str {
        &self.detail
    }

    pub(super) fn bad_body(cause: &str) -> ProblemDetails {
        ProblemDetails::new(StatusCode::BAD_REQUEST, format!("invalid body: {cause}"))
    }

    pub(super) fn bad_member(member: &str, expected: &str) -> ProblemDetails {
        let problem = ProblemDetails::new(StatusCode::BAD_REQUEST, format!("`{member}` must be {expected}"));
        ProblemDetails { member: Some(member.to_owned()), ..problem }
    }

    pub(super) fn unknown_member(member: &str, known: &[&str]) -> ProblemDetails {
        let detail = format!("unknown member `{member}`; the members are {}", known.join(", "));
        ProblemDetails { member: Some(member.to_owned()), ..ProblemDetails::new(StatusCode::BAD_REQUEST, detail) }
    }

    pub(super) fn member_twice(member: &str) -> ProblemDetails {
        let detail = format!("`{member}` occurs twice; send it once");
        ProblemDetails { member: Some(member.to_owned()), ..ProblemDetails::new(StatusCode::BAD_REQUEST, detail) }
    }

    /// `name` is the parameter without its value, which may be a misspelt token.
    pub(super) fn unknown_parameter(name: &str) -> ProblemDetails {
        let detail = format!(
            "unknown parameter `{name}`; the parameters of forward-auth are deny_status and token, and the query of the client's request belongs in X-Forwarded-Uri or X-Original-URI"
        );
        ProblemDetails::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(super) fn bad_field(name: &str, expected: &str) -> ProblemDetails {
        ProblemDetails::new(StatusCode::BAD_REQUEST, format!("the header field `{name}` must be {expected}"))
    }

    pub(super) fn described_twice() -> ProblemDetails {
        let detail = "the request has both X-Forwarded-* and X-Original-* headers: the gateway must set one kind and clear the other";
        ProblemDetails::new(StatusCode::BAD_REQUEST, detail.to_owned())
    }

    pub(super) fn no_receipt() -> ProblemDetails {
        let detail = "unknown receipt: it was used, has expired or never existed";
        ProblemDetails::new(StatusCode::NOT_FOUND, detail.to_owned())
    }

    /// Adds the index of a check in a batch.
    pub(super) fn of_check_at(self, at: usize) -> ProblemDetails {
        let member = match &self.member {
            Some(member) => format!("[{at}].{member}"),
            None => format!("[{at}]"),
        };
        ProblemDetails { detail: format!("check {at}: {}", self.detail), member: Some(member), ..self }
    }

    /// Describes why a body was not read.
    pub(super) fn of_body(error: BodyError, limits: BodyLimits) -> ProblemDetails {
        match error {
            BodyError::TooLarge => {
                let detail = format!("the body must be at most {} bytes", limits.max_bytes);
                ProblemDetails::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
            }
            BodyError::LengthExceeded => ProblemDetails::bad_body("it is longer than announced"),
            BodyError::Unavailable => ProblemDetails::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "no memory is available for the body now; retry later".to_owned(),
            ),
            BodyError::TooSlow => {
                let detail = format!("the body must arrive within {} seconds", limits.timeout.as_secs());
                ProblemDetails::new(StatusCode::REQUEST_TIMEOUT, detail)
            }
            BodyError::Broken(cause) => ProblemDetails::bad_body(&cause),
        }
    }

    pub(super) fn no_such_path(path: &str) -> ProblemDetails {
        ProblemDetails::new(StatusCode::NOT_FOUND, format!("no resource at {path}"))
    }

    pub(super) fn wrong_method(method: &Method, path: &str) -> ProblemDetails {
        let detail = format!("{path} does not support {method}; the `allow` field lists the supported methods");
        ProblemDetails::new(StatusCode::METHOD_NOT_ALLOWED, detail)
    }

    fn unauthorized(detail: &str) -> ProblemDetails {
        ProblemDetails::new(StatusCode::UNAUTHORIZED, detail.to_owned())
    }

    fn forbidden(detail: &str) -> ProblemDetails {
        ProblemDetails::new(StatusCode::FORBIDDEN, detail.to_owned())
    }

    /// Describes why a call of the admin API was refused.
    pub(super) fn of_refused_admin_call(why: CallRefusal) -> ProblemDetails {
        match why {
            CallRefusal::NoToken => {
                ProblemDetails::unauthorized("the admin token is required: send `Authorization: Bearer TOKEN`")
            }
            CallRefusal::WrongToken => {
                ProblemDetails::unauthorized("wrong admin token; it is sent as `Authorization: Bearer TOKEN`")
            }
            CallRefusal::AnotherSite => ProblemDetails::forbidden(
                "requests from web pages of other sites are refused: open the admin API by its own address",
            ),
            CallRefusal::CalledByName => ProblemDetails::forbidden(
                "without an admin token the host must be an IP address or localhost: the owner of any other name could point it at this machine",
            ),
        }
    }

    /// Describes why a call of the public listener was refused.
    pub(super) fn of_refused_caller(why: CallRefusal) -> ProblemDetails {
        match why {
            CallRefusal::NoToken => ProblemDetails::unauthorized(
                "the access token is required: send `Authorization: Bearer TOKEN`, or `X-Tollgate-Token: TOKEN` for forward-auth",
            ),
            CallRefusal::WrongToken => ProblemDetails::unauthorized("wrong access token"),
            CallRefusal::AnotherSite => ProblemDetails::forbidden(
                "requests from web pages of other sites are refused: call the service from a backend, not from a browser",
            ),
            CallRefusal::CalledByName => ProblemDetails::forbidden(
                "without an access token a web page must use an IP address or localhost as the host: the owner of any other name could point it at this machine",
            ),
        }
    }

    pub(super) fn bad_path(detail: &str) -> ProblemDetails {
        ProblemDetails::new(StatusCode::BAD_REQUEST, detail.to_owned())
    }

    pub(super) fn no_such_rule(rule: &str) -> ProblemDetails {
        KeyError::NoSuchRule(rule.to_owned()).into()
    }

    pub(super) fn no_override() -> ProblemDetails {
        let detail = "this key has no override: GET /api/overrides lists the overrides";
        ProblemDetails::new(StatusCode::NOT_FOUND, detail.to_owned())
    }

    pub(super) fn no_regions() -> ProblemDetails {
        let detail = "this service has no regions: they need `regions` in the policy, the name of this one, and a store on \
                      Redis";
        ProblemDetails::new(StatusCode::NOT_FOUND, detail.to_owned())
    }

    pub(super) fn too_many_subscribers(max: usize) -> ProblemDetails {
        ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, format!("all {max} event streams are in use"))
    }

    pub(super) fn too_many_comparisons() -> ProblemDetails {
        ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, "other comparisons are in progress; retry".to_owned())
    }

    pub(super) fn not_reloaded(cause: &str) -> ProblemDetails {
        ProblemDetails::new(StatusCode::CONFLICT, cause.to_owned())
    }

    pub(super) fn nothing_to_reload() -> ProblemDetails {
        ProblemDetails::new(StatusCode::CONFLICT, "there is no policy file to reload".to_owned())
    }

    fn new(status: StatusCode, detail: String) -> ProblemDetails {
        ProblemDetails { status, detail, member: None }
    }
}

/// Describes why a key cannot be inspected or changed.
impl From<KeyError> for ProblemDetails {
    fn from(error: KeyError) -> ProblemDetails {
        let status = match &error {
            KeyError::NoSuchRule(_) => StatusCode::NOT_FOUND,
            KeyError::Change(_) => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_REQUEST,
        };
        let member = match &error {
            KeyError::InvalidLimit(_) | KeyError::NotTaken(_) => Some("limit".to_owned()),
            KeyError::Duration => Some("for".to_owned()),
            _ => None,
        };
        ProblemDetails { member, ..ProblemDetails::new(status, error.to_string()) }
    }
}

impl IntoResponse for ProblemDetails {
    fn into_response(self) -> Response {
        let body = ProblemBody {
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or_default(),
            status: self.status.as_u16(),
            detail: &self.detail,
            member: self.member.as_deref(),
        };
        let json = serde_json::to_vec(&body).unwrap_or_else(|error| unreachable!("strings are JSON: {error}"));
        let mut response = (self.status, [(header::CONTENT_TYPE, PROBLEM_JSON)], json).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
