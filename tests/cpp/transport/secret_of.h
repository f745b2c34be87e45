// SecretOf: a job's secret that tests can tell from another one.
#pragma once

#include "transport/tcp/handshake.h"

namespace hvdlite::transport::tcp {

inline Secret SecretOf(uint8_t byte) {
  Secret secret;
  secret.fill(byte);
  return secret;
}

}  // namespace hvdlite::transport::tcp
