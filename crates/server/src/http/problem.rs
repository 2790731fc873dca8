use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tollgate::KeyError;

use crate::observe::WhyRefused;
use crate::whole_body::{BodyLimits, NoBody};

const PROBLEM_JSON: &str = "application/problem+json";

/// What was wrong with a call, as RFC 9457 writes it.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    status: StatusCode,
    detail: String,
    member: Option<String>,
}

#[derive(Serialize)]
struct Body<'a> {
    /// Says no more than the status does; the detail says the rest.
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<&'a str>,
}

impl Problem {
    #[cfg(test)]
    pub(super) fn detail(&self) -> &str {
        &self.detail
    }

    pub(super) fn bad_body(what: &str) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, format!("the body cannot be read: {what}"))
    }

    pub(super) fn bad_member(member: &str, expected: &str) -> Problem {
        let problem = Problem::new(StatusCode::BAD_REQUEST, format!("`{member}` must be {expected}"));
        Problem { member: Some(member.to_owned()), ..problem }
    }

    pub(super) fn unknown_member(member: &str, known: &[&str]) -> Problem {
        let detail = format!("there is no member `{member}`; the members are {}", known.join(", "));
        Problem { member: Some(member.to_owned()), ..Problem::new(StatusCode::BAD_REQUEST, detail) }
    }

    pub(super) fn member_twice(member: &str) -> Problem {
        let detail = format!("`{member}` is there twice, and nobody can say which is meant");
        Problem { member: Some(member.to_owned()), ..Problem::new(StatusCode::BAD_REQUEST, detail) }
    }

    pub(super) fn unknown_parameter(parameter: &str) -> Problem {
        let detail = format!("there is no parameter `{parameter}`; those that there are: deny_status, token");
        Problem::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(super) fn bad_field(name: &str, expected: &str) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, format!("the header field `{name}` must be {expected}"))
    }

    pub(super) fn described_twice() -> Problem {
        let detail = "the request is described by X-Forwarded-* and by X-Original-*: the gateway must write one and clear the other";
        Problem::new(StatusCode::BAD_REQUEST, detail.to_owned())
    }

    pub(super) fn no_receipt() -> Problem {
        let detail = "there is no such receipt: it was used, it has ended, or it never was";
        Problem::new(StatusCode::NOT_FOUND, detail.to_owned())
    }

    /// The same, of one check of a batch.
    pub(super) fn of_check_at(self, at: usize) -> Problem {
        let member = match &self.member {
            Some(member) => format!("[{at}].{member}"),
            None => format!("[{at}]"),
        };
        Problem { detail: format!("check {at}: {}", self.detail), member: Some(member), ..self }
    }

    /// Why a body cannot be had.
    pub(super) fn of_body(error: NoBody, limits: BodyLimits) -> Problem {
        match error {
            NoBody::TooLarge => {
                let detail = format!("the body must be at most {} bytes", limits.max_bytes);
                Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
            }
            NoBody::LongerThanItSays => Problem::bad_body("it is longer than it says"),
            NoBody::NoRoom => {
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "there is no room for the body now".to_owned())
            }
            NoBody::TooSlow => {
                let detail = format!("the body must arrive within {} seconds", limits.at_most.as_secs());
                Problem::new(StatusCode::REQUEST_TIMEOUT, detail)
            }
            NoBody::Broken(why) => Problem::bad_body(&why),
        }
    }

    pub(super) fn no_such_path(path: &str) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, format!("there is nothing at {path}"))
    }

    pub(super) fn wrong_method(method: &Method, path: &str) -> Problem {
        let detail = format!("{path} does not take {method}; the `allow` field says what it takes");
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail)
    }

    fn unauthorized(detail: &str) -> Problem {
        Problem::new(StatusCode::UNAUTHORIZED, detail.to_owned())
    }

    fn forbidden(detail: &str) -> Problem {
        Problem::new(StatusCode::FORBIDDEN, detail.to_owned())
    }

    /// Why an operator is not answered.
    pub(super) fn of_refused_operator(why: WhyRefused) -> Problem {
        match why {
            WhyRefused::NoToken => {
                Problem::unauthorized("this needs the admin token: send `Authorization: Bearer TOKEN`")
            }
            WhyRefused::WrongToken => {
                Problem::unauthorized("this is not the admin token, which is sent as `Authorization: Bearer TOKEN`")
            }
            WhyRefused::AnotherSite => Problem::forbidden(
                "a page of another site must not ask here: open the admin interface by its own address",
            ),
            WhyRefused::CalledByName => Problem::forbidden(
                "without an admin token this answers only where it is called by an address or as localhost: others could give any other name to it",
            ),
        }
    }

    /// Why a caller of the public listener is not answered.
    pub(super) fn of_refused_caller(why: WhyRefused) -> Problem {
        match why {
            WhyRefused::NoToken => Problem::unauthorized(
                "this needs the access token: send `Authorization: Bearer TOKEN`, or `X-Tollgate-Token: TOKEN` for forward-auth",
            ),
            WhyRefused::WrongToken => Problem::unauthorized("this is not the access token of the service"),
            WhyRefused::AnotherSite => Problem::forbidden(
                "a page of another site must not ask here: a service asks for its clients, not their browsers",
            ),
            WhyRefused::CalledByName => Problem::forbidden(
                "without an access token a page may ask only where it calls the service by an address or as localhost: any other name may be its owner's for this machine",
            ),
        }
    }

    pub(super) fn bad_path(detail: &str) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, detail.to_owned())
    }

    pub(super) fn no_such_rule(rule: &str) -> Problem {
        KeyError::NoSuchRule(rule.to_owned()).into()
    }

    pub(super) fn no_override() -> Problem {
        let detail = "no limit stands by hand for this key: GET /api/overrides lists those that do";
        Problem::new(StatusCode::NOT_FOUND, detail.to_owned())
    }

    pub(super) fn too_many_listeners(most: usize) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("{most} listen already, and more may not"))
    }

    pub(super) fn not_reloaded(why: &str) -> Problem {
        Problem::new(StatusCode::CONFLICT, why.to_owned())
    }

    pub(super) fn nothing_to_reload() -> Problem {
        Problem::new(StatusCode::CONFLICT, "there is no policy file to be read again".to_owned())
    }

    fn new(status: StatusCode, detail: String) -> Problem {
        Problem { status, detail, member: None }
    }
}

/// Why an operator cannot have a key looked at or changed.
impl From<KeyError> for Problem {
    fn from(error: KeyError) -> Problem {
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
        Problem { member, ..Problem::new(status, error.to_string()) }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = Body {
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
