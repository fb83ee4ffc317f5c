//! Texts as vectors: the request of the embeddings protocol, and the vectors out of its response.

use serde_json::{json, Value};

use crate::endpoint::Endpoint;
use crate::error::ModelError;

/// Most texts of one request; many endpoints refuse more than 2048.
pub const MAX_TEXTS: usize = 512;

/// Longest text \[bytes\]: what stays below the few hundred tokens that small models of embeddings read.
pub const MAX_TEXT: usize = 4096;

/// Most numbers of a vector; models of today have up to 4096.
pub const MAX_DIMENSION: usize = 8192;

/// The body of a request.
///
/// # Errors
/// [`ModelError::Texts`] for none, too many or too long texts, [`ModelError::RequestTooLarge`].
pub fn request(texts: &[String], endpoint: &Endpoint) -> Result<String, ModelError> {
    let bad = |reason: String| Err(ModelError::Texts { reason });
    if texts.is_empty() || texts.len() > MAX_TEXTS {
        return bad(format!(
            "there are {}, a request has 1 to {MAX_TEXTS}",
            texts.len()
        ));
    }
    for (i, text) in texts.iter().enumerate() {
        if text.trim().is_empty() || text.len() > MAX_TEXT {
            return bad(format!(
                "text {i} has {} bytes, it needs 1 to {MAX_TEXT} and a character that is no blank",
                text.len()
            ));
        }
    }
    let body =
        json!({"model": endpoint.model, "input": texts, "encoding_format": "float"}).to_string();
    if body.len() > endpoint.max_request {
        return Err(ModelError::RequestTooLarge {
            bytes: body.len(),
            limit: endpoint.max_request,
        });
    }
    Ok(body)
}

/// The vectors out of a response to `count` texts, in their order, each of length 1.
///
/// # Errors
/// [`ModelError::MalformedVectors`] when one is missing or comes twice, is of another dimension than the first, holds
/// what is no finite number, or is zero, which has no direction.
pub fn read_vectors(body: &[u8], count: usize) -> Result<Vec<Vec<f32>>, ModelError> {
    let malformed = |reason: String| ModelError::MalformedVectors { reason };
    let value: Value =
        serde_json::from_slice(body).map_err(|e| malformed(format!("it is no JSON ({e})")))?;
    let data = value
        .get("data")
        .and_then(Value::as_array)
        .ok_or_else(|| malformed("it has no list \"data\"".into()))?;
    if data.len() != count {
        return Err(malformed(format!(
            "it has {} vectors for {count} texts",
            data.len()
        )));
    }
    let mut out: Vec<Option<Vec<f32>>> = vec![None; count];
    let mut dimension = None;
    for (place, entry) in data.iter().enumerate() {
        // Some servers leave it out and answer in order.
        let index = match entry.get("index") {
            None => place,
            Some(index) => index
                .as_u64()
                .and_then(|i| usize::try_from(i).ok())
                .ok_or_else(|| malformed(format!("the index of vector {place} is no number")))?,
        };
        let numbers = entry
            .get("embedding")
            .and_then(Value::as_array)
            .ok_or_else(|| malformed(format!("vector {place} is no list of numbers")))?;
        let expected = *dimension.get_or_insert(numbers.len());
        if numbers.len() != expected || expected == 0 || expected > MAX_DIMENSION {
            return Err(malformed(format!(
                "vector {place} has {} numbers, the first one has {expected}; all have to have as many, 1 to {MAX_DIMENSION}",
                numbers.len()
            )));
        }
        let vector = unit(numbers).ok_or_else(|| {
            malformed(format!(
                "vector {place} is zero or holds what is no finite number"
            ))
        })?;
        let slot = out
            .get_mut(index)
            .ok_or_else(|| malformed(format!("index {index} belongs to none of {count} texts")))?;
        if slot.replace(vector).is_some() {
            return Err(malformed(format!("index {index} comes twice")));
        }
    }
    // As many as texts and none twice: none is missing.
    Ok(out.into_iter().flatten().collect())
}

/// Numbers as a vector of length 1.
fn unit(numbers: &[Value]) -> Option<Vec<f32>> {
    let numbers: Vec<f64> = numbers.iter().map(Value::as_f64).collect::<Option<_>>()?;
    // The largest first, so that squares of large numbers stay finite.
    let largest = numbers.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
    if !(largest.is_finite() && largest > 0.0) {
        return None;
    }
    let scaled: Vec<f64> = numbers.iter().map(|x| x / largest).collect();
    let length = scaled.iter().map(|x| x * x).sum::<f64>().sqrt();
    // Between -1 and 1 after the division.
    #[allow(clippy::cast_possible_truncation)]
    let out: Vec<f32> = scaled.iter().map(|x| (x / length) as f32).collect();
    out.iter().all(|x| x.is_finite()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> Endpoint {
        Endpoint::new("http://localhost/v1", "small")
    }

    #[test]
    fn a_request_has_the_protocols_form_and_limits() {
        let texts = ["cup".to_string(), "杯子".to_string()];
        let body: Value = serde_json::from_str(&request(&texts, &endpoint()).unwrap()).unwrap();
        assert_eq!(
            body,
            json!({"model": "small", "input": ["cup", "杯子"], "encoding_format": "float"})
        );
        let refused = |texts: Vec<String>, why: &str| {
            let error = request(&texts, &endpoint()).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        refused(vec![], "there are 0");
        refused(vec!["x".into(); MAX_TEXTS + 1], "there are 513");
        refused(vec!["x".into(), " ".into()], "text 1");
        refused(vec!["x".repeat(MAX_TEXT + 1)], "4097 bytes");
        let mut small = endpoint();
        small.max_request = 10;
        assert!(matches!(
            request(&texts, &small),
            Err(ModelError::RequestTooLarge { limit: 10, .. })
        ));
    }

    #[test]
    fn vectors_come_in_the_order_of_the_texts_with_length_one() {
        let body = json!({"data": [
            {"index": 1, "embedding": [0.0, 1e200]},
            {"index": 0, "embedding": [3, 4]},
        ]});
        let vectors = read_vectors(body.to_string().as_bytes(), 2).unwrap();
        assert_eq!(vectors, [vec![0.6, 0.8], vec![0.0, 1.0]]);
        let unnumbered = json!({"data": [{"embedding": [1]}, {"embedding": [-2]}]});
        let vectors = read_vectors(unnumbered.to_string().as_bytes(), 2).unwrap();
        assert_eq!(vectors, [vec![1.0], vec![-1.0]]);
    }

    #[test]
    fn what_are_no_vectors_is_named() {
        let two = |a: &str, b: &str| {
            format!(
                r#"{{"data": [{{"index": 0, "embedding": {a}}}, {{"index": 1, "embedding": {b}}}]}}"#
            )
        };
        for (body, why) in [
            ("<html>".to_string(), "no JSON"),
            ("{}".into(), "no list"),
            (r#"{"data": []}"#.into(), "0 vectors for 2"),
            (two("[1, 0]", "[1]"), "vector 1 has 1 numbers"),
            (two("[]", "[]"), "vector 0 has 0 numbers"),
            // Python writes it so.
            (two("[1, 0]", "[NaN, 1]"), "no JSON"),
            (two("[1, 0]", "[null, 1]"), "no finite number"),
            (two("[1, 0]", "[1e999, 1]"), "no JSON"),
            (two("[1, 0]", "[0, 0]"), "zero"),
            (two("[1, 0]", "\"AAAA\""), "no list of numbers"),
            (
                two("[1, 0]", "[1, 1]").replace(r#""index": 1"#, r#""index": 0"#),
                "comes twice",
            ),
            (
                two("[1, 0]", "[1, 1]").replace(r#""index": 1"#, r#""index": 7"#),
                "belongs to none",
            ),
        ] {
            let error = read_vectors(body.as_bytes(), 2).unwrap_err().to_string();
            assert!(error.contains(why), "{body}: {error}");
        }
    }
}
