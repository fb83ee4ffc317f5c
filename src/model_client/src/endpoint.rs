//! Where a model is and how it may be asked.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use crate::chat::AnswerFormat;
use crate::error::ModelError;
use crate::picture::PictureLimits;

/// Longest key \[bytes\]; tokens of today have up to 2 KiB.
const MAX_KEY: usize = 8192;

/// Most tries of one question.
const MAX_TRIES: u32 = 20;

/// Longest wait or deadline.
const MAX_TIME: Duration = Duration::from_secs(3600);

/// A key. It shows itself to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// A key from its text; white space around it is not part of it.
    ///
    /// # Errors
    /// [`ModelError::Setting`] when it is empty, too long or holds what an HTTP header can't.
    pub fn new(text: &str, field: &'static str) -> Result<Self, ModelError> {
        let text = text.trim();
        let bad = |reason: String| ModelError::Setting { field, reason };
        if text.is_empty() {
            return Err(bad("the key is empty".into()));
        }
        if text.len() > MAX_KEY {
            return Err(bad(format!(
                "the key has {} bytes, the limit is {MAX_KEY}",
                text.len()
            )));
        }
        if !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(bad(
                "the key holds a space, a line break or a character that is not ASCII".into(),
            ));
        }
        Ok(Secret(text.to_owned()))
    }

    /// A key from an environment variable or else a file; `None` when neither is named.
    ///
    /// # Errors
    /// [`ModelError::Setting`] when it is not there or can't be a key. The message never holds the key.
    pub fn find(variable: &str, file: &str) -> Result<Option<Self>, ModelError> {
        if !variable.is_empty() {
            let field = "api_key_env";
            let text = std::env::var(variable).map_err(|_| ModelError::Setting {
                field,
                reason: format!(
                    "the environment variable {variable} is not set; set it where the node is started"
                ),
            })?;
            return Secret::new(&text, field).map(Some);
        }
        if file.is_empty() {
            return Ok(None);
        }
        let field = "api_key_file";
        let bad = |reason: String| ModelError::Setting { field, reason };
        let size = std::fs::metadata(Path::new(file))
            .map_err(|e| bad(format!("the file {file} can't be read: {e}")))?
            .len();
        if size > MAX_KEY as u64 {
            return Err(bad(format!(
                "the file {file} has {size} bytes, the limit is {MAX_KEY}; it holds the key and nothing else"
            )));
        }
        let text = std::fs::read_to_string(file)
            .map_err(|e| bad(format!("the file {file} can't be read: {e}")))?;
        Secret::new(&text, field).map(Some)
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

/// How often a question is tried, and the waits between.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// Tries, the first one included.
    pub tries: u32,
    /// Wait after the first.
    pub first_wait: Duration,
    /// Each further wait is so much longer, at least 1.
    pub factor: f64,
    /// No wait is longer, even where the endpoint asks for it.
    pub longest_wait: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            tries: 3,
            first_wait: Duration::from_millis(500),
            factor: 2.0,
            longest_wait: Duration::from_secs(10),
        }
    }
}

impl Retry {
    /// How long to wait after the `tried`-th try failed, from 1; `None`: no more. `asked`: what the endpoint wants
    /// (Retry-After).
    pub fn wait_after(&self, tried: u32, asked: Option<Duration>) -> Option<Duration> {
        if tried >= self.tries {
            return None;
        }
        let power = i32::try_from(tried.saturating_sub(1)).unwrap_or(i32::MAX);
        let seconds = self.first_wait.as_secs_f64() * self.factor.powi(power);
        let own = Duration::try_from_secs_f64(seconds).unwrap_or(self.longest_wait);
        Some(own.max(asked.unwrap_or_default()).min(self.longest_wait))
    }
}

/// A model and how it may be asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Endpoint {
    /// Base address, for example `http://127.0.0.1:8000/v1`; `/chat/completions` or
    /// `/embeddings` is appended.
    pub url: String,
    /// Name of the model.
    pub model: String,
    /// Its key; `None`: none is sent.
    pub key: Option<Secret>,
    /// How the schema of an answer is handed over.
    pub answer_format: AnswerFormat,
    /// Temperature; 0 for what should be the same each time.
    pub temperature: f64,
    /// Most tokens of an answer.
    pub max_tokens: u32,
    /// For a connection.
    pub connect_timeout: Duration,
    /// For one try, the whole answer included.
    pub timeout: Duration,
    /// For all tries and the waits between.
    pub budget: Duration,
    /// Tries and waits.
    pub retry: Retry,
    /// Largest request \[bytes\].
    pub max_request: usize,
    /// Largest answer \[bytes\].
    pub max_answer: usize,
    /// Questions at a time.
    pub at_once: usize,
    /// Questions that may wait besides.
    pub waiting: usize,
    /// Sizes of pictures.
    pub pictures: PictureLimits,
}

impl Endpoint {
    /// An endpoint with usual limits.
    pub fn new(url: &str, model: &str) -> Self {
        Endpoint {
            url: url.to_owned(),
            model: model.to_owned(),
            key: None,
            answer_format: AnswerFormat::JsonSchema,
            temperature: 0.0,
            max_tokens: 1000,
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(30),
            budget: Duration::from_secs(60),
            retry: Retry::default(),
            max_request: 8 * 1024 * 1024,
            max_answer: 256 * 1024,
            at_once: 4,
            waiting: 16,
            pictures: PictureLimits::default(),
        }
    }

    /// Checks every setting.
    ///
    /// # Errors
    /// [`ModelError::Setting`] that names it, its value and the limit.
    pub fn check(&self) -> Result<(), ModelError> {
        let bad = |field: &'static str, reason: String| Err(ModelError::Setting { field, reason });
        let scheme = self.url.split_once("://").map(|(s, _)| s).unwrap_or("");
        match scheme {
            "http" => {}
            "https" if cfg!(feature = "tls") => {}
            "https" => {
                return bad(
                    "url",
                    "it is https, and this program was built without TLS, as by scripts/setup --quick; build it with scripts/setup, or give an http address"
                        .into(),
                )
            }
            _ => return bad("url", "it has to begin with http:// or https://".into()),
        }
        let host = self.url.get(scheme.len() + 3..).unwrap_or("");
        if host.split('/').next().unwrap_or("").contains('@') {
            // It would show up in messages; the key has its own place.
            return bad(
                "url",
                "it holds a user or a password; give the key by api_key_env or api_key_file".into(),
            );
        }
        if self.model.trim().is_empty() || self.model.len() > 256 {
            return bad(
                "name",
                format!("it has {} bytes, it needs 1 to 256", self.model.len()),
            );
        }
        for (field, value) in [
            ("connect_timeout", self.connect_timeout),
            ("timeout", self.timeout),
            ("budget", self.budget),
        ] {
            if value.is_zero() || value > MAX_TIME {
                return bad(
                    field,
                    format!(
                        "it is {} s; it must lie above 0 and at most at 3600 s",
                        value.as_secs_f64()
                    ),
                );
            }
        }
        let retry = &self.retry;
        if !(1..=MAX_TRIES).contains(&retry.tries) {
            return bad(
                "tries",
                format!("it is {}; it must lie in 1 to {MAX_TRIES}", retry.tries),
            );
        }
        if !(retry.factor.is_finite() && (1.0..=10.0).contains(&retry.factor)) {
            return bad(
                "factor",
                format!("it is {}; it must lie in 1 to 10", retry.factor),
            );
        }
        if retry.first_wait > MAX_TIME || retry.longest_wait > MAX_TIME {
            return bad("longest_wait", "no wait may be longer than 3600 s".into());
        }
        if !(self.temperature.is_finite() && (0.0..=2.0).contains(&self.temperature)) {
            return bad(
                "temperature",
                format!("it is {}; it must lie in 0 to 2", self.temperature),
            );
        }
        for (field, value, most) in [
            ("max_tokens", self.max_tokens as usize, 1_000_000),
            ("max_request", self.max_request, 256 * 1024 * 1024),
            ("max_answer", self.max_answer, 64 * 1024 * 1024),
            ("at_once", self.at_once, 64),
            ("waiting", self.waiting, 1024),
        ] {
            if value == 0 || value > most {
                return bad(field, format!("it is {value}; it must lie in 1 to {most}"));
            }
        }
        self.pictures.check()
    }

    /// The address that questions go to.
    pub fn address(&self) -> String {
        format!("{}/chat/completions", self.url.trim_end_matches('/'))
    }

    /// The address that texts go to.
    pub fn embeddings_address(&self) -> String {
        format!("{}/embeddings", self.url.trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_limit_and_heed_the_endpoint() {
        let retry = Retry {
            tries: 5,
            first_wait: Duration::from_secs(1),
            factor: 3.0,
            longest_wait: Duration::from_secs(8),
        };
        let wait = |tried, asked| retry.wait_after(tried, asked).map(|d| d.as_secs());
        assert_eq!(wait(1, None), Some(1));
        assert_eq!(wait(2, None), Some(3));
        // 9 is cut to 8.
        assert_eq!(wait(3, None), Some(8));
        assert_eq!(wait(1, Some(Duration::from_secs(5))), Some(5));
        assert_eq!(wait(1, Some(Duration::from_secs(500))), Some(8));
        assert_eq!(wait(5, None), None);
    }

    #[test]
    fn a_key_is_found_and_never_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "  sk-hidden\n").unwrap();
        let path = file.path().to_str().unwrap();
        let key = Secret::find("", path).unwrap().unwrap();
        assert_eq!(key.reveal(), "sk-hidden");
        let mut endpoint = Endpoint::new("http://127.0.0.1/v1/", "m");
        endpoint.key = Some(key);
        assert!(!format!("{endpoint:?}").contains("hidden"));
        assert_eq!(endpoint.address(), "http://127.0.0.1/v1/chat/completions");
        assert_eq!(Secret::find("", "").unwrap(), None);
        for text in ["", "two words", "naïve", &"x".repeat(MAX_KEY + 1)] {
            std::fs::write(file.path(), text).unwrap();
            let error = Secret::find("", path).unwrap_err().to_string();
            assert!(error.contains("api_key_file"), "{error}");
            assert!(!error.contains("words"), "{error}");
        }
        let error = Secret::find("EH_NO_SUCH_VARIABLE", "").unwrap_err();
        assert!(error.to_string().contains("EH_NO_SUCH_VARIABLE is not set"));
    }

    #[test]
    fn bad_settings_are_refused_by_name() {
        let good = Endpoint::new("http://localhost:1/v1", "m");
        good.check().unwrap();
        let refused = |change: &dyn Fn(&mut Endpoint), field: &str| {
            let mut bad = good.clone();
            change(&mut bad);
            let error = bad.check().unwrap_err().to_string();
            assert!(error.contains(&format!("setting {field}")), "{error}");
        };
        refused(&|e| e.url = "ftp://x".into(), "url");
        refused(&|e| e.url = "localhost".into(), "url");
        refused(&|e| e.url = "http://me:secret@host/v1".into(), "url");
        refused(&|e| e.model = " ".into(), "name");
        refused(&|e| e.timeout = Duration::ZERO, "timeout");
        refused(&|e| e.budget = Duration::MAX, "budget");
        refused(&|e| e.retry.tries = 0, "tries");
        refused(&|e| e.retry.factor = f64::NAN, "factor");
        refused(&|e| e.temperature = f64::INFINITY, "temperature");
        refused(&|e| e.max_answer = 0, "max_answer");
        refused(&|e| e.pictures.quality = 0, "pictures.quality");
        let tls = Endpoint::new("https://localhost/v1", "m").check();
        assert_eq!(tls.is_ok(), cfg!(feature = "tls"), "{tls:?}");
    }
}
