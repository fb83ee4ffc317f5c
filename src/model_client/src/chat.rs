//! A question as a request of the chat-completions protocol, and the answer out of its response.

use serde_json::{json, Value};

use crate::endpoint::Endpoint;
use crate::error::ModelError;
use crate::picture::NamedPicture;

/// Longest piece of a foreign text in a message \[characters\].
const MAX_SHOWN: usize = 200;

/// How the schema of an answer is handed over. Not every server knows schemas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnswerFormat {
    /// As `response_format` of type `json_schema`.
    #[default]
    JsonSchema,
    /// `response_format` of type `json_object`: the prompt has to say the rest.
    JsonObject,
    /// Not at all.
    Text,
}

impl AnswerFormat {
    /// All of them.
    pub const ALL: [AnswerFormat; 3] = [
        AnswerFormat::JsonSchema,
        AnswerFormat::JsonObject,
        AnswerFormat::Text,
    ];

    /// Its name in parameters.
    pub const fn name(self) -> &'static str {
        match self {
            AnswerFormat::JsonSchema => "json_schema",
            AnswerFormat::JsonObject => "json_object",
            AnswerFormat::Text => "text",
        }
    }

    /// The format of a name.
    ///
    /// # Errors
    /// [`ModelError::Setting`] that names those there are.
    pub fn of(name: &str) -> Result<Self, ModelError> {
        AnswerFormat::ALL
            .into_iter()
            .find(|f| f.name() == name)
            .ok_or_else(|| ModelError::Setting {
                field: "answer_format",
                reason: format!(
                    "it is \"{}\"; give one of {}",
                    shown(name),
                    AnswerFormat::ALL.map(AnswerFormat::name).join(", ")
                ),
            })
    }
}

/// One question: no history, each stands for itself.
#[derive(Clone, Debug)]
pub struct Chat {
    /// What the model is told to be.
    pub system: String,
    /// What is asked.
    pub text: String,
    /// Pictures, in the order in which the text speaks of them.
    pub pictures: Vec<NamedPicture>,
    /// Name and JSON schema of the answer; `None`: words.
    pub schema: Option<(String, Value)>,
}

impl Chat {
    /// The request's body; pictures are encoded, which takes time.
    ///
    /// # Errors
    /// [`ModelError::Picture`], [`ModelError::RequestTooLarge`].
    pub fn body(&self, endpoint: &Endpoint) -> Result<String, ModelError> {
        let mut content = vec![json!({"type": "text", "text": self.text})];
        for picture in &self.pictures {
            let url = picture
                .image
                .data_url(&endpoint.pictures)
                .map_err(|source| ModelError::Picture {
                    name: picture.name.clone(),
                    source,
                })?;
            content.push(json!({"type": "text", "text": format!("{}:", picture.name)}));
            content.push(json!({"type": "image_url", "image_url": {"url": url}}));
        }
        let mut body = json!({
            "model": endpoint.model,
            "temperature": endpoint.temperature,
            "max_tokens": endpoint.max_tokens,
            "stream": false,
            "messages": [
                {"role": "system", "content": self.system},
                {"role": "user", "content": content},
            ],
        });
        let format = match (&self.schema, endpoint.answer_format) {
            (Some((name, schema)), AnswerFormat::JsonSchema) => Some(json!({
                "type": "json_schema",
                "json_schema": {"name": name, "strict": true, "schema": schema},
            })),
            (Some(_), AnswerFormat::JsonObject) => Some(json!({"type": "json_object"})),
            (Some(_), AnswerFormat::Text) | (None, _) => None,
        };
        if let (Some(format), Some(map)) = (format, body.as_object_mut()) {
            map.insert("response_format".into(), format);
        }
        let text = body.to_string();
        if text.len() > endpoint.max_request {
            return Err(ModelError::RequestTooLarge {
                bytes: text.len(),
                limit: endpoint.max_request,
            });
        }
        Ok(text)
    }
}

/// The model's words out of a response.
///
/// # Errors
/// [`ModelError::Malformed`], or [`ModelError::Unfinished`] when it was stopped by its limit of tokens, by a filter or
/// declines: half an answer is none.
pub fn read_answer(body: &[u8]) -> Result<String, ModelError> {
    let malformed = |reason: String| ModelError::Malformed { reason };
    let unfinished = |reason: String| ModelError::Unfinished { reason };
    let value: Value =
        serde_json::from_slice(body).map_err(|e| malformed(format!("it is no JSON ({e})")))?;
    let choice = value
        .pointer("/choices/0")
        .ok_or_else(|| malformed("it has no choices".into()))?;
    match choice.get("finish_reason").and_then(Value::as_str) {
        // Some servers leave it out.
        Some("stop") | None => {}
        Some("length") => {
            return Err(unfinished(
                "it was cut off at max_tokens; allow more tokens".into(),
            ))
        }
        Some(other) => return Err(unfinished(format!("finish_reason is {}", shown(other)))),
    }
    let message = choice
        .get("message")
        .ok_or_else(|| malformed("its choice has no message".into()))?;
    if let Some(refusal) = message.get("refusal").and_then(Value::as_str) {
        return Err(unfinished(format!("it declines: {}", shown(refusal))));
    }
    match message.get("content") {
        Some(Value::String(text)) => Ok(text.clone()),
        // Some servers answer in parts.
        Some(Value::Array(parts)) => {
            let texts: Vec<&str> = parts
                .iter()
                .filter_map(|p| p.get("text").and_then(Value::as_str))
                .collect();
            if texts.is_empty() {
                return Err(malformed("its message has no text".into()));
            }
            Ok(texts.concat())
        }
        _ => Err(malformed("its message has no text".into())),
    }
}

/// The beginning of a foreign text, in one line.
pub(crate) fn shown(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_SHOWN)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::RawImage;
    use std::sync::Arc;

    fn chat() -> Chat {
        Chat {
            system: "judge".into(),
            text: "is it so?".into(),
            pictures: vec![NamedPicture {
                name: "v1".into(),
                image: Arc::new(RawImage {
                    width: 8,
                    height: 8,
                    encoding: "mono8".into(),
                    step: 8,
                    data: vec![7; 64],
                }),
            }],
            schema: Some(("verdict".into(), json!({"type": "object"}))),
        }
    }

    #[test]
    fn a_request_has_the_protocols_form() {
        let mut endpoint = Endpoint::new("http://localhost/v1", "small");
        let body: Value = serde_json::from_str(&chat().body(&endpoint).unwrap()).unwrap();
        assert_eq!(body["model"], "small");
        assert_eq!(
            body["messages"][0],
            json!({"role": "system", "content": "judge"})
        );
        let content = &body["messages"][1]["content"];
        assert_eq!(content[0]["text"], "is it so?");
        // Each picture comes after its name.
        assert_eq!(content[1]["text"], "v1:");
        let url = content[2]["image_url"]["url"].as_str().unwrap();
        assert!(url.starts_with("data:image/jpeg;base64,"));
        assert_eq!(
            body["response_format"]["json_schema"],
            json!({"name": "verdict", "strict": true, "schema": {"type": "object"}})
        );
        for (format, expected) in [
            (AnswerFormat::JsonObject, json!({"type": "json_object"})),
            (AnswerFormat::Text, Value::Null),
        ] {
            endpoint.answer_format = format;
            let body: Value = serde_json::from_str(&chat().body(&endpoint).unwrap()).unwrap();
            assert_eq!(body["response_format"], expected);
            assert_eq!(AnswerFormat::of(format.name()).unwrap(), format);
        }
        assert!(AnswerFormat::of("xml")
            .unwrap_err()
            .to_string()
            .contains("json_schema, json_object"));
    }

    #[test]
    fn too_large_a_request_and_a_bad_picture_are_told() {
        let mut endpoint = Endpoint::new("http://localhost/v1", "m");
        endpoint.max_request = 300;
        let error = chat().body(&endpoint).unwrap_err().to_string();
        assert!(error.contains("the limit is 300"), "{error}");
        let mut bad = chat();
        bad.pictures[0].image = Arc::new(RawImage::default());
        let error = bad.body(&endpoint).unwrap_err().to_string();
        assert!(
            error.contains("picture v1") && error.contains("0 x 0"),
            "{error}"
        );
    }

    #[test]
    fn answers_are_read_and_what_is_none_is_named() {
        let read = |v: Value| read_answer(v.to_string().as_bytes());
        let message = |m: Value| json!({"choices": [{"finish_reason": "stop", "message": m}]});
        assert_eq!(read(message(json!({"content": "yes"}))).unwrap(), "yes");
        assert_eq!(
            read(message(json!({"content": [{"text": "y"}, {"text": "es"}]}))).unwrap(),
            "yes"
        );
        assert_eq!(
            read(json!({"choices": [{"message": {"content": ""}}]})).unwrap(),
            ""
        );
        for (bad, why) in [
            (json!({}), "no choices"),
            (json!({"choices": []}), "no choices"),
            (json!({"choices": [{}]}), "no message"),
            (message(json!({"content": null})), "no text"),
            (message(json!({"content": [{}]})), "no text"),
            (
                message(json!({"content": null, "refusal": "I can't"})),
                "declines: I can't",
            ),
            (
                json!({"choices": [{"finish_reason": "length", "message": {"content": "{"}}]}),
                "max_tokens",
            ),
            (
                json!({"choices": [{"finish_reason": "content_filter", "message": {"content": ""}}]}),
                "content_filter",
            ),
        ] {
            let error = read(bad.clone()).unwrap_err().to_string();
            assert!(error.contains(why), "{bad}: {error}");
        }
        assert!(read_answer(b"<html>")
            .unwrap_err()
            .to_string()
            .contains("no JSON"));
        assert!(read_answer(b"").is_err());
    }
}
