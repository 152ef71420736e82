//! `wasi:http/types.error-code`, with a text for the grain's log.

use wasmtime::component::{ComponentType, Lift, Lower};

/// Why a request failed: the code for the guest, and what happened for people.
#[derive(Debug, Clone)]
pub(crate) struct HttpError {
    pub(crate) code: ErrorCode,
    pub(crate) text: String,
}

impl HttpError {
    pub(crate) fn new(code: ErrorCode, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// The error of the HTTP implementation.
    pub(super) fn of_hyper(error: &hyper::Error) -> Self {
        let code = if error.is_parse_too_large() {
            ErrorCode::HttpResponseHeaderSectionSize(None)
        } else if error.is_parse() {
            ErrorCode::HttpProtocolError
        } else if error.is_incomplete_message() {
            ErrorCode::HttpResponseIncomplete
        } else if error.is_user() || error.is_body_write_aborted() {
            return Self::new(
                ErrorCode::HttpRequestBodySize(None),
                format!("the request was not sent whole: {error}"),
            );
        } else {
            ErrorCode::ConnectionTerminated
        };
        Self::new(code, format!("no whole answer came: {error}"))
    }
}

/// `error-code`; the cases stand in the order of WASI.
#[derive(Debug, Clone, PartialEq, Eq, ComponentType, Lift, Lower)]
#[component(variant)]
pub(crate) enum ErrorCode {
    #[component(name = "DNS-timeout")]
    DnsTimeout,
    #[component(name = "DNS-error")]
    DnsError(DnsError),
    #[component(name = "destination-not-found")]
    DestinationNotFound,
    #[component(name = "destination-unavailable")]
    DestinationUnavailable,
    #[component(name = "destination-IP-prohibited")]
    DestinationIpProhibited,
    #[component(name = "destination-IP-unroutable")]
    DestinationIpUnroutable,
    #[component(name = "connection-refused")]
    ConnectionRefused,
    #[component(name = "connection-terminated")]
    ConnectionTerminated,
    #[component(name = "connection-timeout")]
    ConnectionTimeout,
    #[component(name = "connection-read-timeout")]
    ConnectionReadTimeout,
    #[component(name = "connection-write-timeout")]
    ConnectionWriteTimeout,
    #[component(name = "connection-limit-reached")]
    ConnectionLimitReached,
    #[component(name = "TLS-protocol-error")]
    TlsProtocolError,
    #[component(name = "TLS-certificate-error")]
    TlsCertificateError,
    #[component(name = "TLS-alert-received")]
    TlsAlertReceived(TlsAlert),
    #[component(name = "HTTP-request-denied")]
    HttpRequestDenied,
    #[component(name = "HTTP-request-length-required")]
    HttpRequestLengthRequired,
    #[component(name = "HTTP-request-body-size")]
    HttpRequestBodySize(Option<u64>),
    #[component(name = "HTTP-request-method-invalid")]
    HttpRequestMethodInvalid,
    #[component(name = "HTTP-request-URI-invalid")]
    HttpRequestUriInvalid,
    #[component(name = "HTTP-request-URI-too-long")]
    HttpRequestUriTooLong,
    #[component(name = "HTTP-request-header-section-size")]
    HttpRequestHeaderSectionSize(Option<u32>),
    #[component(name = "HTTP-request-header-size")]
    HttpRequestHeaderSize(Option<FieldSize>),
    #[component(name = "HTTP-request-trailer-section-size")]
    HttpRequestTrailerSectionSize(Option<u32>),
    #[component(name = "HTTP-request-trailer-size")]
    HttpRequestTrailerSize(FieldSize),
    #[component(name = "HTTP-response-incomplete")]
    HttpResponseIncomplete,
    #[component(name = "HTTP-response-header-section-size")]
    HttpResponseHeaderSectionSize(Option<u32>),
    #[component(name = "HTTP-response-header-size")]
    HttpResponseHeaderSize(FieldSize),
    #[component(name = "HTTP-response-body-size")]
    HttpResponseBodySize(Option<u64>),
    #[component(name = "HTTP-response-trailer-section-size")]
    HttpResponseTrailerSectionSize(Option<u32>),
    #[component(name = "HTTP-response-trailer-size")]
    HttpResponseTrailerSize(FieldSize),
    #[component(name = "HTTP-response-transfer-coding")]
    HttpResponseTransferCoding(Option<String>),
    #[component(name = "HTTP-response-content-coding")]
    HttpResponseContentCoding(Option<String>),
    #[component(name = "HTTP-response-timeout")]
    HttpResponseTimeout,
    #[component(name = "HTTP-upgrade-failed")]
    HttpUpgradeFailed,
    #[component(name = "HTTP-protocol-error")]
    HttpProtocolError,
    #[component(name = "loop-detected")]
    LoopDetected,
    #[component(name = "configuration-error")]
    ConfigurationError,
    #[component(name = "internal-error")]
    InternalError(Option<String>),
}

/// `DNS-error-payload`.
#[derive(Debug, Clone, Default, PartialEq, Eq, ComponentType, Lift, Lower)]
#[component(record)]
pub(crate) struct DnsError {
    rcode: Option<String>,
    #[component(name = "info-code")]
    info_code: Option<u16>,
}

/// `TLS-alert-received-payload`.
#[derive(Debug, Clone, Default, PartialEq, Eq, ComponentType, Lift, Lower)]
#[component(record)]
pub(crate) struct TlsAlert {
    #[component(name = "alert-id")]
    alert_id: Option<u8>,
    #[component(name = "alert-message")]
    alert_message: Option<String>,
}

/// `field-size-payload`.
#[derive(Debug, Clone, Default, PartialEq, Eq, ComponentType, Lift, Lower)]
#[component(record)]
pub(crate) struct FieldSize {
    #[component(name = "field-name")]
    field_name: Option<String>,
    #[component(name = "field-size")]
    field_size: Option<u32>,
}
