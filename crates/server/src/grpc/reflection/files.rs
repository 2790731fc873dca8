//! The files in which our messages would be written, as compilers describe
//! them: of each what we use of it.

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    MethodDescriptorProto, ServiceDescriptorProto,
};

const RLS: &str = "envoy/service/ratelimit/v3/rls.proto";
const DESCRIPTOR: &str = "envoy/extensions/common/ratelimit/v3/ratelimit.proto";
const UNIT: &str = "envoy/type/v3/ratelimit_unit.proto";
const HEADER: &str = "envoy/config/core/v3/base.proto";
const DURATION: &str = "google/protobuf/duration.proto";
const WRAPPERS: &str = "google/protobuf/wrappers.proto";
const HEALTH: &str = "grpc/health/v1/health.proto";
const REFLECTION: &str = "grpc/reflection/v1/reflection.proto";
const REFLECTION_ALPHA: &str = "grpc/reflection/v1alpha/reflection.proto";

/// A file and all that it needs; nothing if there is no such file.
pub(in crate::grpc) fn files_of(name: &str) -> Vec<FileDescriptorProto> {
    let Some(file) = file(name) else { return Vec::new() };
    let needed: Vec<FileDescriptorProto> = file.dependency.iter().flat_map(|other| files_of(other)).collect();
    let mut files = vec![file];
    for other in needed {
        if files.iter().all(|known| known.name != other.name) {
            files.push(other);
        }
    }
    files
}

/// The file that has a service, a method or a message of this full name.
pub(in crate::grpc) fn file_of(symbol: &str) -> Option<&'static str> {
    let packages = [
        ("envoy.service.ratelimit.v3", RLS),
        ("envoy.extensions.common.ratelimit.v3", DESCRIPTOR),
        ("envoy.type.v3", UNIT),
        ("envoy.config.core.v3", HEADER),
        ("grpc.health.v1", HEALTH),
        ("grpc.reflection.v1", REFLECTION),
        ("grpc.reflection.v1alpha", REFLECTION_ALPHA),
    ];
    let within = |name: &str, package: &str| name.strip_prefix(package).is_some_and(|rest| rest.starts_with('.'));
    match symbol {
        "google.protobuf.Duration" => Some(DURATION),
        "google.protobuf.UInt64Value" => Some(WRAPPERS),
        _ => packages.into_iter().find(|(package, _)| within(symbol, package)).map(|(_, file)| file),
    }
}

fn file(name: &str) -> Option<FileDescriptorProto> {
    let file = match name {
        RLS => rls(),
        DESCRIPTOR => descriptor(),
        UNIT => units(),
        HEADER => header(),
        DURATION => described("google.protobuf", vec![duration()]),
        WRAPPERS => described("google.protobuf", vec![message("UInt64Value", &[one(1, "value", Type::Uint64)])]),
        HEALTH => health(),
        REFLECTION => reflection("grpc.reflection.v1"),
        REFLECTION_ALPHA => reflection("grpc.reflection.v1alpha"),
        _ => return None,
    };
    Some(FileDescriptorProto { name: Some(name.to_owned()), syntax: Some("proto3".to_owned()), ..file })
}

fn rls() -> FileDescriptorProto {
    const PACKAGE: &str = ".envoy.service.ratelimit.v3";
    let of = |name: &str| format!("{PACKAGE}.{name}");
    let request = message(
        "RateLimitRequest",
        &[
            one(1, "domain", Type::String),
            many_of(2, "descriptors", ".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor"),
            one(3, "hits_addend", Type::Uint32),
        ],
    );
    let limit = message(
        "RateLimit",
        &[
            one(1, "requests_per_unit", Type::Uint32),
            choice(2, "unit", &of("RateLimitResponse.RateLimit.Unit")),
            one(3, "name", Type::String),
        ],
    );
    let status = message(
        "DescriptorStatus",
        &[
            choice(1, "code", &of("RateLimitResponse.Code")),
            one_of(2, "current_limit", &of("RateLimitResponse.RateLimit")),
            one(3, "limit_remaining", Type::Uint32),
            one_of(4, "duration_until_reset", ".google.protobuf.Duration"),
        ],
    );
    let response = message(
        "RateLimitResponse",
        &[
            choice(1, "overall_code", &of("RateLimitResponse.Code")),
            many_of(2, "statuses", &of("RateLimitResponse.DescriptorStatus")),
            many_of(3, "response_headers_to_add", ".envoy.config.core.v3.HeaderValue"),
        ],
    );
    let response = DescriptorProto {
        nested_type: vec![DescriptorProto { enum_type: vec![choices("Unit", &UNITS_OF_ANSWERS)], ..limit }, status],
        enum_type: vec![choices("Code", &["UNKNOWN", "OK", "OVER_LIMIT"])],
        ..response
    };
    FileDescriptorProto {
        dependency: [DESCRIPTOR, HEADER, DURATION].map(str::to_owned).to_vec(),
        service: vec![service(
            "RateLimitService",
            &[method("ShouldRateLimit", &of("RateLimitRequest"), &of("RateLimitResponse"))],
        )],
        ..described("envoy.service.ratelimit.v3", vec![request, response])
    }
}

/// Answers and questions number weeks, months and years alike.
const UNITS_OF_ANSWERS: [&str; 8] = ["UNKNOWN", "SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR", "WEEK"];

fn descriptor() -> FileDescriptorProto {
    const MESSAGE: &str = ".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor";
    let entry = message("Entry", &[one(1, "key", Type::String), one(2, "value", Type::String)]);
    let limit = message(
        "RateLimitOverride",
        &[one(1, "requests_per_unit", Type::Uint32), choice(2, "unit", ".envoy.type.v3.RateLimitUnit")],
    );
    let descriptor = message(
        "RateLimitDescriptor",
        &[
            many_of(1, "entries", &format!("{MESSAGE}.Entry")),
            one_of(2, "limit", &format!("{MESSAGE}.RateLimitOverride")),
            one_of(3, "hits_addend", ".google.protobuf.UInt64Value"),
            one(4, "is_negative_hits", Type::Bool),
        ],
    );
    FileDescriptorProto {
        dependency: [UNIT, WRAPPERS].map(str::to_owned).to_vec(),
        ..described(
            "envoy.extensions.common.ratelimit.v3",
            vec![DescriptorProto { nested_type: vec![entry, limit], ..descriptor }],
        )
    }
}

fn units() -> FileDescriptorProto {
    FileDescriptorProto {
        enum_type: vec![choices("RateLimitUnit", &UNITS_OF_ANSWERS)],
        ..described("envoy.type.v3", Vec::new())
    }
}

fn header() -> FileDescriptorProto {
    let header = message("HeaderValue", &[one(1, "key", Type::String), one(2, "value", Type::String)]);
    described("envoy.config.core.v3", vec![header])
}

fn duration() -> DescriptorProto {
    message("Duration", &[one(1, "seconds", Type::Int64), one(2, "nanos", Type::Int32)])
}

fn health() -> FileDescriptorProto {
    const STATUS: &str = ".grpc.health.v1.HealthCheckResponse.ServingStatus";
    let (asked, told) = (".grpc.health.v1.HealthCheckRequest", ".grpc.health.v1.HealthCheckResponse");
    let request = message("HealthCheckRequest", &[one(1, "service", Type::String)]);
    let response = DescriptorProto {
        enum_type: vec![choices("ServingStatus", &["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"])],
        ..message("HealthCheckResponse", &[choice(1, "status", STATUS)])
    };
    let watch = MethodDescriptorProto { server_streaming: Some(true), ..method("Watch", asked, told) };
    FileDescriptorProto {
        service: vec![service("Health", &[method("Check", asked, told), watch])],
        ..described("grpc.health.v1", vec![request, response])
    }
}

fn reflection(package: &str) -> FileDescriptorProto {
    let of = |name: &str| format!(".{package}.{name}");
    let request = message(
        "ServerReflectionRequest",
        &[
            one(1, "host", Type::String),
            one(3, "file_by_filename", Type::String),
            one(4, "file_containing_symbol", Type::String),
            one(7, "list_services", Type::String),
        ],
    );
    let response = message(
        "ServerReflectionResponse",
        &[
            one(1, "valid_host", Type::String),
            one_of(2, "original_request", &of("ServerReflectionRequest")),
            one_of(4, "file_descriptor_response", &of("FileDescriptorResponse")),
            one_of(6, "list_services_response", &of("ListServiceResponse")),
            one_of(7, "error_response", &of("ErrorResponse")),
        ],
    );
    let files = message("FileDescriptorResponse", &[many(1, "file_descriptor_proto", Type::Bytes)]);
    let services = message("ListServiceResponse", &[many_of(1, "service", &of("ServiceResponse"))]);
    let named = message("ServiceResponse", &[one(1, "name", Type::String)]);
    let error = message("ErrorResponse", &[one(1, "error_code", Type::Int32), one(2, "error_message", Type::String)]);
    let info = method("ServerReflectionInfo", &of("ServerReflectionRequest"), &of("ServerReflectionResponse"));
    let info = MethodDescriptorProto { client_streaming: Some(true), server_streaming: Some(true), ..info };
    FileDescriptorProto {
        service: vec![service("ServerReflection", &[info])],
        ..described(package, vec![request, response, files, services, named, error])
    }
}

fn described(package: &str, messages: Vec<DescriptorProto>) -> FileDescriptorProto {
    FileDescriptorProto { package: Some(package.to_owned()), message_type: messages, ..FileDescriptorProto::default() }
}

fn message(name: &str, fields: &[FieldDescriptorProto]) -> DescriptorProto {
    DescriptorProto { name: Some(name.to_owned()), field: fields.to_vec(), ..DescriptorProto::default() }
}

fn one(number: i32, name: &str, kind: Type) -> FieldDescriptorProto {
    FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        label: Some(Label::Optional.into()),
        r#type: Some(kind.into()),
        ..FieldDescriptorProto::default()
    }
}

fn many(number: i32, name: &str, kind: Type) -> FieldDescriptorProto {
    FieldDescriptorProto { label: Some(Label::Repeated.into()), ..one(number, name, kind) }
}

fn one_of(number: i32, name: &str, message: &str) -> FieldDescriptorProto {
    FieldDescriptorProto { type_name: Some(message.to_owned()), ..one(number, name, Type::Message) }
}

fn many_of(number: i32, name: &str, message: &str) -> FieldDescriptorProto {
    FieldDescriptorProto { label: Some(Label::Repeated.into()), ..one_of(number, name, message) }
}

fn choice(number: i32, name: &str, choices: &str) -> FieldDescriptorProto {
    FieldDescriptorProto { type_name: Some(choices.to_owned()), ..one(number, name, Type::Enum) }
}

fn choices(name: &str, values: &[&str]) -> EnumDescriptorProto {
    let value = |(number, name): (i32, &&str)| EnumValueDescriptorProto {
        name: Some((*name).to_owned()),
        number: Some(number),
        options: None,
    };
    EnumDescriptorProto {
        name: Some(name.to_owned()),
        value: (0..).zip(values).map(value).collect(),
        ..EnumDescriptorProto::default()
    }
}

fn method(name: &str, asked: &str, told: &str) -> MethodDescriptorProto {
    MethodDescriptorProto {
        name: Some(name.to_owned()),
        input_type: Some(asked.to_owned()),
        output_type: Some(told.to_owned()),
        ..MethodDescriptorProto::default()
    }
}

fn service(name: &str, methods: &[MethodDescriptorProto]) -> ServiceDescriptorProto {
    ServiceDescriptorProto { name: Some(name.to_owned()), method: methods.to_vec(), options: None }
}
