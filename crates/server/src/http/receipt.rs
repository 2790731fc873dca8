//! Uses a receipt, once: refund, settle or release.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::{Extension, Json};
use serde::Serialize;
use serde_json::{Value, json};

use super::connection::HttpCaller;
use super::problem::ProblemDetails;
use crate::engine::{Engine, UnknownReceipt};
use crate::http::strict_json::BodyMembers;
use crate::receipts::ReceiptName;

/// The maximum body: a receipt and a number.
const MAX_RECEIPT_BYTES: usize = 1 << 10;

pub(super) const RECEIPT_MEMBERS: [&str; 1] = ["receipt"];
pub(super) const SETTLE_MEMBERS: [&str; 2] = ["receipt", "cost"];

/// The response to a settlement.
#[derive(Serialize)]
pub(super) struct SettledBody {
    pub(super) settled: bool,
    /// The part of the actual cost beyond the limit and its debt. It is returned and counted, and charged to no key.
    pub(super) overrun: u64,
}

/// `POST /v1/refund`: refunds a request that did not happen.
pub(super) async fn refund(
    State(engine): State<Arc<Engine>>,
    Extension(caller): Extension<Arc<HttpCaller>>,
    body: Body,
) -> Result<Json<Value>, ProblemDetails> {
    let members = read(body, &caller, &RECEIPT_MEMBERS).await?;
    engine.refund(name(&members)?).map_err(no_receipt)?;
    Ok(Json(json!({ "refunded": true })))
}

/// `POST /v1/release`: releases the permits of a request that has ended.
pub(super) async fn release(
    State(engine): State<Arc<Engine>>,
    Extension(caller): Extension<Arc<HttpCaller>>,
    body: Body,
) -> Result<Json<Value>, ProblemDetails> {
    let members = read(body, &caller, &RECEIPT_MEMBERS).await?;
    engine.release(name(&members)?).map_err(no_receipt)?;
    Ok(Json(json!({ "released": true })))
}

/// `POST /v1/settle`: charges the actual cost of a request that has ended.
pub(super) async fn settle(
    State(engine): State<Arc<Engine>>,
    Extension(caller): Extension<Arc<HttpCaller>>,
    body: Body,
) -> Result<Json<SettledBody>, ProblemDetails> {
    let members = read(body, &caller, &SETTLE_MEMBERS).await?;
    let name = name(&members)?;
    let cost = members.get("cost").and_then(Value::as_u64);
    let cost =
        cost.ok_or_else(|| ProblemDetails::bad_member("cost", "a whole number from 0 to 18446744073709551615"))?;
    let settled = engine.settle(name, cost).await.map_err(no_receipt)?;
    Ok(Json(SettledBody { settled: true, overrun: settled.overrun }))
}

async fn read(body: Body, caller: &HttpCaller, known: &[&str]) -> Result<BodyMembers, ProblemDetails> {
    BodyMembers::parse(&caller.read_body(body, MAX_RECEIPT_BYTES).await?, known)
}

fn name(members: &BodyMembers) -> Result<ReceiptName, ProblemDetails> {
    let text = members.get("receipt").and_then(Value::as_str);
    let text = text.ok_or_else(|| ProblemDetails::bad_member("receipt", "a receipt from the response to a check"))?;
    // A malformed name is treated like any unknown one.
    ReceiptName::parse(text).ok_or_else(ProblemDetails::no_receipt)
}

fn no_receipt(UnknownReceipt: UnknownReceipt) -> ProblemDetails {
    ProblemDetails::no_receipt()
}
