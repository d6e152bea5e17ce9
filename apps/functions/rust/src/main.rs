//! Serves one instance of the function on `PORT`, as Knative's template for Rust does: with one worker.

mod event;
mod instance;
mod work;

use actix_web::guard::{self, Guard, GuardContext};
use actix_web::http::header::CONTENT_TYPE;
use actix_web::{App, HttpResponse, HttpServer, web};
use instance::{Instance, answer_event, answer_plain};

const MAX_BODY_BYTES: usize = 1 << 20;
const SHUTDOWN_S: u64 = 5;

#[actix_web::main]
async fn main() -> std::io::Result<()> {
    let instance = web::Data::new(Instance::from_environment());
    let port = std::env::var("PORT").unwrap_or_default();
    let port = if port.is_empty() { "8080" } else { &port };
    let port: u16 = port.parse().map_err(|_| {
        let said = format!("PORT must be a number from 1 to 65535, not {port:?}");
        std::io::Error::new(std::io::ErrorKind::InvalidInput, said)
    })?;
    HttpServer::new(move || {
        App::new()
            .app_data(instance.clone())
            .app_data(web::PayloadConfig::new(MAX_BODY_BYTES))
            .route("/health/{_:(readiness|liveness)}", web::get().to(HttpResponse::Ok))
            .route("/", web::post().guard(guard::fn_guard(means_event)).to(answer_event))
            .route("/", web::route().guard(get_or_post()).to(answer_plain))
    })
    .workers(1)
    .shutdown_timeout(SHUTDOWN_S)
    .bind(("0.0.0.0", port))?
    .run()
    .await
}

fn get_or_post() -> impl Guard {
    guard::Any(guard::Get()).or(guard::Post())
}

/// Whether a request means to be a CloudEvent, right or wrong.
fn means_event(request: &GuardContext<'_>) -> bool {
    let headers = request.head().headers();
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    headers.contains_key("ce-specversion")
        || kind.is_some_and(|kind| kind.starts_with("application/cloudevents+json"))
}
