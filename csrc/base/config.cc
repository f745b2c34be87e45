#include "base/config.h"

#include <cerrno>
#include <cstdlib>

namespace hvdlite {
namespace {

bool Parse(const std::string& text, bool* value) {
  *value = text == "1" || text == "true" || text == "True";
  return *value || text == "0" || text == "false" || text == "False";
}

bool Parse(const std::string& text, int64_t* value) {
  char* end = nullptr;
  errno = 0;
  *value = strtoll(text.c_str(), &end, 10);
  return errno == 0 && !text.empty() && *end == '\0';
}

bool Parse(const std::string& text, double* value) {
  char* end = nullptr;
  errno = 0;
  *value = strtod(text.c_str(), &end);
  return errno == 0 && !text.empty() && *end == '\0';
}

bool Parse(const std::string& text, std::string* value) {
  *value = text;
  return true;
}

std::string Text(bool value) {
  return value ? "1" : "0";
}
std::string Text(int64_t value) {
  return std::to_string(value);
}
std::string Text(double value) {
  return std::to_string(value);
}
std::string Text(const std::string& value) {
  return value;
}

}  // namespace

Status Config::Set(const std::string& field, const std::string& text) {
  bool known = false;
  bool readable = false;
#define HVDLITE_KNOB(type, name, ...) \
  if (field == #name) {               \
    known = true;                     \
    readable = Parse(text, &name);    \
  }
#include "base/knobs.inc"
#undef HVDLITE_KNOB
  if (!known) return Status::InvalidArgument("there is no knob named '" + field + "'");
  if (!readable)
    return Status::InvalidArgument("knob " + field + ": cannot read the value '" + text + "'");
  return Status::Ok();
}

std::string Config::Alike() const {
  std::string all;
#define HVDLITE_KNOB(type, name, value, variable, alike) \
  if (alike) all += (all.empty() ? "" : ";") + std::string(variable) + "=" + Text(name);
#include "base/knobs.inc"
#undef HVDLITE_KNOB
  return all;
}

}  // namespace hvdlite
