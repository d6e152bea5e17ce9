//! CloudEvents to and from actix-web's requests and responses.

use actix_web::http::header::HeaderMap;
use actix_web::{HttpResponse, HttpResponseBuilder};
use cloudevents::Event;
use cloudevents::binding::http_0_2::{Builder, Serializer, to_event};
use cloudevents::message::{BinaryDeserializer, Error, Result};

/// Reads an event in either mode.
pub fn event_of(headers: &HeaderMap, body: &[u8]) -> std::result::Result<Event, Error> {
    let headers: http::HeaderMap =
        headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    to_event(&headers, body.to_vec())
}

/// An event in binary mode, in a response that has its other headers already.
pub fn response_of(event: Event, response: HttpResponseBuilder) -> HttpResponse {
    BinaryDeserializer::deserialize_binary(event, Serializer::new(Response(response)))
        .unwrap_or_else(|wrong| HttpResponse::InternalServerError().body(wrong.to_string()))
}

struct Response(HttpResponseBuilder);

impl Builder<HttpResponse> for Response {
    fn header(&mut self, key: &str, value: http::header::HeaderValue) {
        self.0.insert_header((key, value));
    }

    fn body(&mut self, bytes: Vec<u8>) -> Result<HttpResponse> {
        Ok(self.0.body(bytes))
    }

    fn finish(&mut self) -> Result<HttpResponse> {
        Ok(self.0.finish())
    }
}
