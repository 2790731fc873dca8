//! A stand-in for a language model: it answers each word with its letters in reverse, and counts words as tokens.

use std::io;

use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Serves the model.
pub async fn serve(listener: TcpListener) -> io::Result<()> {
    axum::serve(listener, Router::new().route("/complete", post(complete))).await
}

async fn complete(prompt: String) -> Json<Value> {
    let reversed = |word: &str| word.chars().rev().collect::<String>();
    let words: Vec<String> = prompt.split_whitespace().map(reversed).collect();
    Json(json!({ "text": words.join(" "), "tokens": 2 * words.len() }))
}
