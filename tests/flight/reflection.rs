//! What a client finds out about the services, as `grpcurl list` does.

use futures::stream;
use tonic::Code;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

use super::*;

/// The answer to one question.
async fn ask(
    service: &Service,
    question: MessageRequest,
) -> Result<ServerReflectionResponse, tonic::Status> {
    let mut client = ServerReflectionClient::new(channel(service).await);
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(question) };
    let mut answers = client.server_reflection_info(stream::iter([request])).await?.into_inner();
    Ok(answers.message().await?.expect("each question has an answer"))
}

/// Where roles log in as well: names are no secret.
#[test]
fn services_are_listed_to_whoever_asks() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        let role = "CREATE ROLE ann WITH PASSWORD = 'secret' AND LOGIN = true";
        client.execute_update(role.to_owned(), None).await.unwrap();
        let refused = query(&mut client, "SELECT 1").await.err().unwrap();
        assert!(refused.to_string().contains("authenticat"), "{refused}");

        let list = MessageRequest::ListServices(String::new());
        let answer = ask(&service, list).await.unwrap().message_response;
        let Some(MessageResponse::ListServicesResponse(list)) = answer else {
            panic!("{answer:?}")
        };
        let names: Vec<&str> = list.service.iter().map(|service| service.name.as_str()).collect();
        let wanted = [
            "arrow.flight.protocol.FlightService",
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
        ];
        assert_eq!(names, wanted);
        let symbol = |name: &str| MessageRequest::FileContainingSymbol(name.to_owned());
        for known in ["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"] {
            let answer = ask(&service, symbol(known)).await.unwrap().message_response;
            let is_file = matches!(answer, Some(MessageResponse::FileDescriptorResponse(_)));
            assert!(is_file, "{known}: {answer:?}");
        }
        let unknown = ask(&service, symbol(wanted[0])).await.unwrap_err();
        assert_eq!(unknown.code(), Code::NotFound);
    });
    assert_eq!(service.stop().0, Some(0));
}
