//! The thread that speaks HTTP.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::header::{HeaderMap, HeaderValue, ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Response};
use tokio::sync::{mpsc, oneshot, Semaphore};

use crate::chat::{read_answer, shown, Chat};
use crate::embeddings::{read_vectors, request};
use crate::endpoint::Endpoint;
use crate::error::ModelError;

/// How much of an error's body is read \[bytes\].
const MAX_ERROR_BODY: usize = 4096;

/// What is asked.
enum Question {
    Chat(Chat),
    Embeddings(Vec<String>),
}

/// What is answered, in the kind of the question. It is read on the thread of HTTP, since vectors are long.
enum Answer {
    Text(String),
    Vectors(Vec<Vec<f32>>),
}

struct Job {
    question: Question,
    answer: oneshot::Sender<Result<Answer, ModelError>>,
}

/// A client with its thread. Dropping it ends the thread and every question that is open.
#[derive(Debug)]
pub struct ModelClient {
    jobs: mpsc::Sender<Job>,
    waiting: usize,
}

impl ModelClient {
    /// Checks the endpoint and starts the thread. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ModelError::Setting`], [`ModelError::System`].
    pub fn start(endpoint: Endpoint) -> Result<Self, ModelError> {
        endpoint.check()?;
        let http = http_client(&endpoint)?;
        let waiting = endpoint.waiting;
        let (jobs, queue) = mpsc::channel(waiting);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        std::thread::Builder::new()
            .name("model_client".into())
            .spawn(move || {
                runtime.block_on(serve(http, Arc::new(endpoint), queue));
                // A look-up of a name or a picture in the making must not hold the end up.
                runtime.shutdown_background();
            })?;
        Ok(ModelClient { jobs, waiting })
    }

    /// Asks. The future may be waited for on any executor; dropping it ends the question.
    ///
    /// # Errors
    /// [`ModelError`], each in words for people.
    pub fn ask(
        &self,
        chat: Chat,
    ) -> impl Future<Output = Result<String, ModelError>> + Send + 'static {
        let answered = self.send(Question::Chat(chat));
        async move {
            match answered.await? {
                Answer::Text(text) => Ok(text),
                // Never: a chat is answered by a text.
                Answer::Vectors(_) => Err(ModelError::Ended),
            }
        }
    }

    /// Asks for the vectors of texts, in their order and of length 1. As [`ModelClient::ask`].
    ///
    /// # Errors
    /// [`ModelError`], each in words for people.
    pub fn embed(
        &self,
        texts: Vec<String>,
    ) -> impl Future<Output = Result<Vec<Vec<f32>>, ModelError>> + Send + 'static {
        let answered = self.send(Question::Embeddings(texts));
        async move {
            match answered.await? {
                Answer::Vectors(vectors) => Ok(vectors),
                // Never: texts are answered by vectors.
                Answer::Text(_) => Err(ModelError::Ended),
            }
        }
    }

    fn send(
        &self,
        question: Question,
    ) -> impl Future<Output = Result<Answer, ModelError>> + Send + 'static {
        let (answer, answered) = oneshot::channel();
        let sent = self.jobs.try_send(Job { question, answer });
        let waiting = self.waiting;
        async move {
            match sent {
                Ok(()) => answered.await.unwrap_or(Err(ModelError::Ended)),
                Err(mpsc::error::TrySendError::Full(_)) => Err(ModelError::Busy { waiting }),
                Err(mpsc::error::TrySendError::Closed(_)) => Err(ModelError::Ended),
            }
        }
    }
}

fn http_client(endpoint: &Endpoint) -> Result<Client, ModelError> {
    #[cfg(feature = "tls")]
    {
        // Someone else in the process may have chosen one before, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    if let Some(key) = &endpoint.key {
        let refused = |_| ModelError::Setting {
            field: "api_key",
            reason: "the key can't be an HTTP header".into(),
        };
        let mut value =
            HeaderValue::from_str(&format!("Bearer {}", key.reveal())).map_err(refused)?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Client::builder()
        .default_headers(headers)
        .redirect(Policy::none())
        .no_proxy()
        .connect_timeout(endpoint.connect_timeout)
        .build()
        .map_err(|e| ModelError::Setting {
            field: "url",
            reason: chain(&e.without_url()),
        })
}

/// Works off questions until the client is dropped.
async fn serve(http: Client, endpoint: Arc<Endpoint>, mut queue: mpsc::Receiver<Job>) {
    let places = Arc::new(Semaphore::new(endpoint.at_once));
    loop {
        // A place first: what has none stays in the queue, which is bounded.
        let Ok(place) = places.clone().acquire_owned().await else {
            return;
        };
        let Some(mut job) = queue.recv().await else {
            return;
        };
        let (http, endpoint) = (http.clone(), endpoint.clone());
        tokio::spawn(async move {
            let answer = tokio::select! {
                // Nobody waits for it any more.
                () = job.answer.closed() => return,
                answer = answer(&http, &endpoint, job.question) => answer,
            };
            drop(place);
            // Who has given up meanwhile needs no answer.
            let _ = job.answer.send(answer);
        });
    }
}

/// Asks until there is an answer, tries or time are used up.
async fn answer(
    http: &Client,
    endpoint: &Arc<Endpoint>,
    question: Question,
) -> Result<Answer, ModelError> {
    let begun = Instant::now();
    let e = endpoint.clone();
    let (address, body, texts) = match question {
        Question::Chat(chat) => (
            endpoint.address(),
            tokio::task::spawn_blocking(move || chat.body(&e))
                .await
                .map_err(|_| ModelError::Ended)??,
            None,
        ),
        Question::Embeddings(texts) => (
            endpoint.embeddings_address(),
            request(&texts, &e)?,
            Some(texts.len()),
        ),
    };
    let body: Arc<str> = body.into();
    let mut tried = 0;
    loop {
        tried += 1;
        let left = endpoint.budget.saturating_sub(begun.elapsed());
        let limit = left.min(endpoint.timeout);
        let error = match tokio::time::timeout(limit, once(http, endpoint, &address, &body)).await {
            Ok(Ok(bytes)) => {
                return match texts {
                    None => read_answer(&bytes).map(Answer::Text),
                    Some(count) => read_vectors(&bytes, count).map(Answer::Vectors),
                }
            }
            Ok(Err(error)) => error,
            Err(_) => ModelError::Slow(limit),
        };
        if !error.is_transient() {
            return Err(error);
        }
        let asked = match &error {
            ModelError::Status { retry_after, .. } => *retry_after,
            _ => None,
        };
        let Some(wait) = endpoint.retry.wait_after(tried, asked) else {
            return Err(if tried == 1 {
                error
            } else {
                ModelError::GivenUp {
                    tries: tried,
                    last: Box::new(error),
                }
            });
        };
        if begun.elapsed().saturating_add(wait) >= endpoint.budget {
            return Err(ModelError::OutOfTime {
                budget: endpoint.budget,
                last: error.to_string(),
            });
        }
        tokio::time::sleep(wait).await;
    }
}

/// One try.
async fn once(
    http: &Client,
    endpoint: &Endpoint,
    address: &str,
    body: &str,
) -> Result<Vec<u8>, ModelError> {
    let mut response = http
        .post(address)
        .body(body.to_owned())
        .send()
        .await
        .map_err(|e| ModelError::Unreachable {
            reason: chain(&e.without_url()),
        })?;
    let status = response.status();
    if !status.is_success() {
        let retry_after = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|v| v.to_str().ok()?.trim().parse().ok())
            .map(Duration::from_secs);
        // What the endpoint says of it helps; that it says too much or breaks off does not matter.
        let mut said = Vec::new();
        while let Ok(Some(chunk)) = response.chunk().await {
            said.extend_from_slice(&chunk);
            if said.len() >= MAX_ERROR_BODY {
                break;
            }
        }
        said.truncate(MAX_ERROR_BODY);
        return Err(ModelError::Status {
            status: status.as_u16(),
            body: shown(String::from_utf8_lossy(&said).trim()),
            retry_after,
        });
    }
    read_body(response, endpoint.max_answer).await
}

/// The whole body, if it is not too large.
async fn read_body(mut response: Response, limit: usize) -> Result<Vec<u8>, ModelError> {
    let mut bytes = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => {
                if bytes.len() + chunk.len() > limit {
                    return Err(ModelError::AnswerTooLarge { limit });
                }
                bytes.extend_from_slice(&chunk);
            }
            Ok(None) => return Ok(bytes),
            Err(error) => {
                return Err(ModelError::CutOff {
                    bytes: bytes.len(),
                    reason: chain(&error.without_url()),
                })
            }
        }
    }
}

/// An error with what it comes from: the first words alone rarely tell.
fn chain(error: &dyn std::error::Error) -> String {
    let mut words = vec![error.to_string()];
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if words.last() != Some(&text) {
            words.push(text);
        }
        next = cause.source();
    }
    shown(&words.join(": "))
}
