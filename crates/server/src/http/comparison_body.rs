use serde::Serialize;
use tollgate_workbench::compare::{AlgorithmResult, Comparison};
use tollgate_workbench::rate_text;

/// The result of a comparison as JSON: the output of `tollgate compare`, and a part of the response to `POST /api/compare`.
#[derive(Debug, Serialize)]
pub struct ComparisonBody {
    limit: String,
    requests: u64,
    clients: u64,
    algorithms: Vec<AlgorithmBody>,
}

#[derive(Debug, Serialize)]
struct AlgorithmBody {
    algorithm: &'static str,
    admitted: u64,
    refused: u64,
    max_in_window: u64,
    max_in_second: u64,
    wrong_percent: f64,
    longest_wait_ms: u64,
    longest_delay_ms: u64,
    longest_retry_ms: u64,
    bytes_per_client: u64,
}

impl From<&Comparison> for ComparisonBody {
    fn from(comparison: &Comparison) -> ComparisonBody {
        let ms = |ns: u64| ns.div_ceil(1_000_000);
        let algorithm = |result: &AlgorithmResult| AlgorithmBody {
            algorithm: result.algorithm,
            admitted: result.admitted,
            refused: result.refused,
            max_in_window: result.max_in_window,
            max_in_second: result.max_in_second,
            wrong_percent: result.wrong_percent,
            longest_wait_ms: ms(result.longest_wait_ns()),
            longest_delay_ms: ms(result.longest_delay_ns),
            longest_retry_ms: ms(result.longest_retry_ns),
            bytes_per_client: result.bytes_per_client,
        };
        ComparisonBody {
            limit: rate_text(&comparison.rate),
            requests: comparison.requests,
            clients: comparison.clients,
            algorithms: comparison.algorithms.iter().map(algorithm).collect(),
        }
    }
}
