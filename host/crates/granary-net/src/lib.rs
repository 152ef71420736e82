//! Framed connections between silos: handshake, requests and responses, limits.
