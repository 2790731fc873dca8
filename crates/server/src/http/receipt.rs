//! What becomes of a receipt: it is refunded, settled or released, once.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::{Extension, Json};
use serde::Serialize;
use serde_json::{Value, json};

use super::connection::Caller;
use super::problem::Problem;
use crate::engine::{Engine, NoReceipt};
use crate::http::strict_json::Members;
use crate::receipts::ReceiptName;

/// A receipt and a number.
const MAX_RECEIPT_BYTES: usize = 1 << 10;

pub(super) const RECEIPT_MEMBERS: [&str; 1] = ["receipt"];
pub(super) const SETTLE_MEMBERS: [&str; 2] = ["receipt", "cost"];

/// The answer to a settlement.
#[derive(Serialize)]
pub(super) struct SettledBody {
    pub(super) settled: bool,
    /// How much of the true cost was more than there was. It is told and counted, and charged to nobody.
    pub(super) overrun: u64,
}

/// `POST /v1/refund`: the request did not happen after all.
pub(super) async fn refund(
    State(engine): State<Arc<Engine>>,
    Extension(caller): Extension<Arc<Caller>>,
    body: Body,
) -> Result<Json<Value>, Problem> {
    let members = read(body, &caller, &RECEIPT_MEMBERS).await?;
    engine.refund(name(&members)?).map_err(no_receipt)?;
    Ok(Json(json!({ "refunded": true })))
}

/// `POST /v1/release`: the request has ended, and others may begin.
pub(super) async fn release(
    State(engine): State<Arc<Engine>>,
    Extension(caller): Extension<Arc<Caller>>,
    body: Body,
) -> Result<Json<Value>, Problem> {
    let members = read(body, &caller, &RECEIPT_MEMBERS).await?;
    engine.release(name(&members)?).map_err(no_receipt)?;
    Ok(Json(json!({ "released": true })))
}

/// `POST /v1/settle`: the request has ended, and this is what it truly cost.
pub(super) async fn settle(
    State(engine): State<Arc<Engine>>,
    Extension(caller): Extension<Arc<Caller>>,
    body: Body,
) -> Result<Json<SettledBody>, Problem> {
    let members = read(body, &caller, &SETTLE_MEMBERS).await?;
    let name = name(&members)?;
    let cost = members.get("cost").and_then(Value::as_u64);
    let cost = cost.ok_or_else(|| Problem::bad_member("cost", "a whole number from 0 to 18446744073709551615"))?;
    let settled = engine.settle(name, cost).await.map_err(no_receipt)?;
    Ok(Json(SettledBody { settled: true, overrun: settled.overrun }))
}

async fn read(body: Body, caller: &Caller, known: &[&str]) -> Result<Members, Problem> {
    Members::parse(&caller.read_body(body, MAX_RECEIPT_BYTES).await?, known)
}

fn name(members: &Members) -> Result<ReceiptName, Problem> {
    let text = members.get("receipt").and_then(Value::as_str);
    let text = text.ok_or_else(|| Problem::bad_member("receipt", "a receipt that a check has answered"))?;
    // One that we cannot have written is as unknown as any other.
    ReceiptName::parse(text).ok_or_else(Problem::no_receipt)
}

fn no_receipt(NoReceipt: NoReceipt) -> Problem {
    Problem::no_receipt()
}
