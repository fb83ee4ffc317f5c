//! FIND with a text, where an endpoint turns texts into vectors: names that are like it are found besides those that
//! fit by words. Without an answer in time the words alone decide, and the answer says so.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use eh_model_client::{Endpoint, ModelClient, ModelError, Retry, Secret};
use eh_ros_edge::params::{integer, number, text};
use eh_scene::query::MAX_TEXT;
use eh_scene::similarity::{unknown_texts, Ranked, Vectors};
use parking_lot::Mutex;
use rclrs::{log_warn, Node, ToLogParams};
use ros_env::embodied_harness::srv::{QueryScene_Request, QueryScene_Response};

use crate::node::{Shared, LOG_PERIOD};
use crate::Error;

/// Most names of the scene that go with one query; a scene with more becomes known over several.
const BATCH: usize = 64;

/// Largest answer: so many vectors of 8192 numbers in decimals.
const MAX_ANSWER: usize = 16 * 1024 * 1024;

/// Most nodes of which the answer tells how like they are.
const MAX_TOLD: usize = 100;

/// What the endpoint is and what like enough is.
#[derive(Clone, Debug)]
pub struct Settings {
    endpoint: Endpoint,
    /// Least similarity of what is found by it alone.
    least: f64,
    /// Most numbers of vectors that are kept.
    limit: usize,
}

impl Settings {
    /// Declares the parameters; `None` when no endpoint is set.
    ///
    /// # Errors
    /// [`enum@Error`] that names the parameter or setting, its value and the limit.
    pub(crate) fn declare(node: &Node) -> Result<Option<Self>, Error> {
        let url = text(
            node,
            "embedding.url",
            "",
            "Base address of an OpenAI-compatible endpoint that turns texts into vectors; /embeddings is appended. https needs a build with TLS, as scripts/setup makes it. Empty: none, texts are searched by words alone.",
        )?;
        let model = text(node, "embedding.name", "", "Name of its model.")?;
        let variable = text(
            node,
            "embedding.api_key_env",
            "",
            "Environment variable that holds its key. Empty: none is sent.",
        )?;
        let timeout = number(
            node,
            "embedding.timeout",
            1.0,
            0.05..=60.0,
            "s",
            "How long a query waits for it; then words alone decide.",
        )?;
        let least = number(
            node,
            "embedding.min_similarity",
            0.6,
            0.0..=1.0,
            "",
            "Least cosine of what is found by its vector alone; models differ in what is alike.",
        )?;
        let memory = integer(
            node,
            "embedding.memory",
            32,
            1..=4096,
            "MiB",
            "Most memory for vectors of names and texts; the oldest go.",
        )?;
        if url.is_empty() {
            return Ok(None);
        }
        let timeout = Duration::from_secs_f64(timeout);
        let endpoint = Endpoint {
            key: Secret::find(&variable, "")?,
            connect_timeout: timeout,
            timeout,
            budget: timeout,
            // Who asks waits: a second try would come too late.
            retry: Retry {
                tries: 1,
                ..Retry::default()
            },
            max_answer: MAX_ANSWER,
            // Nothing waits behind one that hangs.
            at_once: 32,
            waiting: 8,
            ..Endpoint::new(&url, &model)
        };
        endpoint.check()?;
        Ok(Some(Settings {
            endpoint,
            least,
            limit: usize::try_from(memory).unwrap_or(32) * 1024 * 1024 / size_of::<f32>(),
        }))
    }
}

/// Asks the endpoint and keeps what it said.
pub(crate) struct VectorSearch {
    client: ModelClient,
    model: String,
    least: f64,
    /// Taken after the lock of the scene, never before.
    vectors: Mutex<Vectors>,
}

impl VectorSearch {
    pub(crate) fn start(settings: &Settings) -> Result<Self, ModelError> {
        let model = settings.endpoint.model.clone();
        Ok(VectorSearch {
            client: ModelClient::start(settings.endpoint.clone())?,
            vectors: Mutex::new(Vectors::new(&model, settings.limit)),
            model,
            least: settings.least,
        })
    }

    /// The vector of a text, after the names that have none were asked for with it; or why there is none.
    async fn vector_of(&self, asked: &str, shared: &Shared) -> Result<Vec<f32>, String> {
        let texts: Vec<String> = {
            let core = shared.core.lock();
            let vectors = self.vectors.lock();
            let mut texts: BTreeSet<String> = unknown_texts(core.scene.graph(), &vectors, BATCH);
            if vectors.get(asked).is_none() {
                texts.insert(asked.to_owned());
            }
            texts.into_iter().collect()
        };
        if !texts.is_empty() {
            let answered = self.client.embed(texts.clone()).await;
            let answered = answered.map_err(|e| e.to_string())?;
            let mut vectors = self.vectors.lock();
            // What was asked comes last: no other one takes its room.
            let (own, others): (Vec<_>, Vec<_>) = texts
                .into_iter()
                .zip(answered)
                .partition(|(text, _)| text == asked);
            for (text, vector) in others.into_iter().chain(own) {
                vectors.keep(&text, vector).map_err(|e| e.to_string())?;
            }
        }
        let vectors = self.vectors.lock();
        let found = vectors.get(asked).map(<[f32]>::to_vec);
        found.ok_or_else(|| "its vector has no room; enlarge embedding.memory".into())
    }

    /// Says how it was searched and how like what was found is.
    fn told(&self, found: &[Ranked<'_>], without: usize) -> String {
        let mut out = format!(
            "found by words and by vectors of {}; similarity (cosine, no probability of success):",
            self.model
        );
        for ranked in found.iter().take(MAX_TOLD) {
            let name = &ranked.object.r#ref;
            let how = if ranked.by_words { "words" } else { "vector" };
            // Writing to a text can't fail.
            let _ = match ranked.similarity {
                Some(like) => write!(out, "\n{name} {like:.2} ({how})"),
                None => write!(out, "\n{name} not known ({how})"),
            };
        }
        if found.len() > MAX_TOLD {
            let _ = write!(out, "\nand {} more", found.len() - MAX_TOLD);
        }
        if without > 0 {
            let _ = write!(
                out,
                "\nat least {without} names have no vector yet and were searched by words alone"
            );
        }
        out
    }
}

/// Answers a query; only FIND with a text waits for the endpoint.
pub(crate) async fn query(
    shared: Arc<Shared>,
    search: Arc<VectorSearch>,
    request: QueryScene_Request,
) -> QueryScene_Response {
    let is_like = request.operation == QueryScene_Request::OPERATION_FIND
        && !request.text.trim().is_empty()
        && request.text.len() <= MAX_TEXT;
    if !is_like {
        return shared.query(&request);
    }
    match search.vector_of(&request.text, &shared).await {
        Ok(asked) => shared.query_with(&request, |scene, query, response| {
            let vectors = search.vectors.lock();
            let found = scene.find_like(query, &vectors, &asked, search.least)?;
            let without = unknown_texts(scene.graph(), &vectors, BATCH).len();
            response.brief = search.told(&found, without);
            Ok(found.into_iter().map(|r| r.object.clone()).collect())
        }),
        Err(reason) => {
            log_warn!(
                shared.node.logger().throttle(LOG_PERIOD),
                "a text was searched by words alone: {reason}"
            );
            let mut response = shared.query(&request);
            if response.error_code == 0 {
                response.brief = format!("found by words alone: {reason}");
            }
            response
        }
    }
}
