use axum::http::header;
use axum::response::IntoResponse;

/// The OpenAPI description of the HTTP API.
const OPENAPI: &str = include_str!("openapi.json");

/// `GET /openapi.json`.
pub(super) async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::Serialize;
    use serde_json::{Value, json};
    use tollgate::{Limiter, Request, rule};

    use super::*;
    use crate::http::check::strict_body::MEMBERS;
    use crate::http::check::verdict_body;
    use crate::http::limits_body::LimitsBody;
    use crate::http::public_routes;
    use crate::http::receipt::{RECEIPT_MEMBERS, SETTLE_MEMBERS, SettledBody};

    fn document() -> Value {
        serde_json::from_str(OPENAPI).unwrap()
    }

    fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
        names.into_iter().map(str::to_owned).collect()
    }

    fn members(value: &Value) -> BTreeSet<String> {
        names(value.as_object().unwrap().keys().map(String::as_str))
    }

    fn properties(schema: &str) -> BTreeSet<String> {
        members(&document()["components"]["schemas"][schema]["properties"])
    }

    fn to_json(body: impl Serialize) -> Value {
        serde_json::to_value(body).unwrap()
    }

    #[test]
    fn every_route_is_described() {
        let described = members(&document()["paths"]);
        assert_eq!(described, names(public_routes().into_iter().map(|(path, _)| path)));
    }

    #[test]
    fn every_request_member_is_described() {
        assert_eq!(properties("Check"), names(MEMBERS));
        assert_eq!(properties("ReceiptOnly"), names(RECEIPT_MEMBERS));
        assert_eq!(properties("Settlement"), names(SETTLE_MEMBERS));
    }

    #[test]
    fn every_response_member_is_described() {
        let limiter = Limiter::builder().rule(rule("r").limit("1/s").queue(9, std::time::Duration::from_secs(9)));
        let limiter = limiter.build().unwrap();
        let check = || limiter.check(&Request::from_peer(None));
        let _first = check();
        // The second is delayed, and so has every member except a receipt and a refusal's message.
        let mut json = Vec::new();
        verdict_body::write(&mut json, &check(), None);
        let mut response: Value = serde_json::from_slice(&json).unwrap();
        response["receipt"] = json!("");
        let refusing = Limiter::builder().rule(rule("r").limit("1/min").message("Later.")).build().unwrap();
        let _first = refusing.check(&Request::from_peer(None));
        json.clear();
        verdict_body::write(&mut json, &refusing.check(&Request::from_peer(None)), None);
        let refusal: Value = serde_json::from_slice(&json).unwrap();
        response["message"] = refusal["message"].as_str().map(Value::from).unwrap();
        assert_eq!(members(&response), properties("Answer"));
        assert_eq!(members(&response["rules"][0]), properties("RuleAnswer"));
        assert_eq!(names(["refunded"]), properties("Refunded"));
        assert_eq!(names(["released"]), properties("Released"));
        assert_eq!(members(&to_json(SettledBody { settled: true, overrun: 0 })), properties("Settled"));
    }

    #[test]
    fn every_member_of_the_limits_is_described() {
        let policy = tollgate::policy::PolicyBuilder::default().rule(rule("r").limit("1/s")).build().unwrap();
        let limits = to_json(LimitsBody::from(&tollgate::policy::published::Published::of(&policy)));
        assert_eq!(members(&limits), properties("Limits"));
        assert_eq!(members(&limits["rules"][0]), properties("PublishedRule"));
        assert_eq!(members(&limits["rules"][0]["grants"][0]), properties("PublishedGrant"));
        assert_eq!(members(&limits["rules"][0]["grants"][0]["limits"][0]), properties("PublishedLimit"));
        assert_eq!(members(&limits["fields"][0]), properties("PublishedField"));
    }

    #[test]
    fn every_reference_resolves() {
        fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
            match value {
                Value::Object(members) => {
                    found.extend(members.get("$ref").and_then(Value::as_str));
                    members.values().for_each(|value| references(value, found));
                }
                Value::Array(values) => values.iter().for_each(|value| references(value, found)),
                _ => {}
            }
        }
        let document = document();
        assert_eq!(document["openapi"], "3.1.0");
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 10);
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }
}
