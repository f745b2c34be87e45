// Config: every knob, typed, with its default. base/knobs.inc is generated from the table in
// hvdlite/base/knobs.py. Python reads the environment and checks ranges, once. Nothing below calls
// getenv.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace hvdlite {

struct Config {
#define HVDLITE_KNOB(type, name, value, ...) type name = value;
#include "base/knobs.inc"
#undef HVDLITE_KNOB

  // Sets one field from text ("1", "0.5", "auto"). kInvalidArgument names an unknown field or an
  // unreadable value.
  Status Set(const std::string& field, const std::string& text);
  // The knobs that must have the same value on all ranks, as "HVDLITE_A=1;HVDLITE_B=auto". They
  // decide which rank sends what, when, so no rank can tell them to the others.
  std::string Alike() const;
};

}  // namespace hvdlite
