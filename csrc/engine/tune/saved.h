// Saved: the result of autotuning as a file, for the next job. DECIDES; pure.
#pragma once

#include <optional>
#include <string>

#include "engine/tune/setting.h"

namespace hvdlite::engine {

// What the result depends on.
struct JobShape {
  int ranks = 1;
  int hosts = 1;
};

std::string SavedText(const Setting& setting, const JobShape& shape, const Config& config);
// Nothing if the text was not saved by a job of this shape, or is damaged; `why` then says so.
std::optional<Setting> ReadSaved(const std::string& text, const JobShape& shape, std::string* why);

}  // namespace hvdlite::engine
