//! gRPC's own reflection, in both of its versions: which services are here.
//!
//! Invariant: it tells what is the same of every Tidegate, so nobody is asked who they are. Of
//! health and of itself it has the messages too. Those of Flight are in `Flight.proto`, which Arrow
//! publishes and which no crate brings along.

use tonic_reflection::pb::{v1, v1alpha};
use tonic_reflection::server::Builder;
use tonic_reflection::server::v1::{ServerReflection, ServerReflectionServer};
use tonic_reflection::server::v1alpha::{
    ServerReflection as OlderReflection, ServerReflectionServer as OlderReflectionServer,
};

use super::health;

/// Descriptors are parts of the program.
const READABLE: &str = "descriptors that a crate brings along can be read";

/// That of today.
pub(super) fn newer() -> ServerReflectionServer<impl ServerReflection> {
    told().build_v1().expect(READABLE)
}

/// That of before, which older clients ask.
pub(super) fn older() -> OlderReflectionServer<impl OlderReflection> {
    told().build_v1alpha().expect(READABLE)
}

fn told() -> Builder<'static> {
    let own = [
        v1::server_reflection_server::SERVICE_NAME,
        v1alpha::server_reflection_server::SERVICE_NAME,
    ];
    let names = health::SERVICES.into_iter().chain(own);
    let told = names.fold(Builder::configure(), Builder::with_service_name);
    told.register_encoded_file_descriptor_set(health::DESCRIPTORS)
}
