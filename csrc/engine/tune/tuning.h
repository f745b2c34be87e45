// Tuning: autotuning in the engine of one rank. The root of the world measures and decides. Its
// decisions travel with all others, so every rank changes the setting between the same two
// operations.
//
// Only tensors in host memory are measured: an operation on a GPU ends for the engine when it is
// enqueued. Thread-safety: for the holder of the turn. Borrows the config and the log.
#pragma once

#include <memory>
#include <string>

#include "base/config.h"
#include "base/log.h"
#include "engine/sets.h"
#include "engine/tune/journal.h"
#include "engine/tune/meter.h"
#include "engine/tune/saved.h"
#include "engine/tune/tuner.h"
#include "engine/turn.h"

namespace hvdlite::engine {

// DECIDES. The dials that have an effect in a job whose world uses this communicator.
DialRanges DialsOf(const Config& config, std::string_view communicator, bool over_mpi);

class Tuning {
 public:
  // After the world has its communicator. `generation`: of an elastic job; 0: the job is not
  // elastic. Null if the config turns autotuning off, or there is no other rank. kInvalidArgument
  // for a bad HVDLITE_AUTOTUNE_KEEP.
  static Status Begin(const Config& config, const Logger& log, const comm::World& world,
                      const ProcessSet& set, uint32_t generation, std::unique_ptr<Tuning>* out);
  ~Tuning();

  // A batch is done.
  void Ended(const ProcessSet& set, const Running& running, ProcessSet* world, Nanos now);
  // The setting that all ranks use from here on.
  void Apply(uint64_t packed, Sets* sets, Turn* turn, Nanos now);
  // For sets that are added now.
  int64_t fusion_threshold() const { return setting_.FusionThreshold(config_); }
  // The current setting as JSON, for metrics.
  std::string Report() const;

 private:
  Tuning(const Config& config, const Logger& log, const DialRanges& ranges, const JobShape& shape)
      : config_(config), log_(log), ranges_(ranges), shape_(shape) {}

  // The root's part.
  struct Root {
    Root(const TunerOptions& tuner_options, const Meter::Options& meter_options)
        : tuner(tuner_options), meter(meter_options) {}
    Tuner tuner;
    Meter meter;
    Journal journal;
    int samples = 0;
    bool begun = false;
    bool told = false;  // a setting is on its way to all ranks
    bool said_converged = false;
  };

  void BecomeRoot(uint32_t generation);
  Setting Saved() const;
  // A sample is complete. Returns whether the setting changes.
  bool Decide();
  void Say(const Tuner::Outcome& outcome, double score);
  void Row(const char* event, const Setting& setting, double score);
  void Save();
  std::string Words(const Setting& setting) const { return setting.Describe(config_, ranges_); }

  const Config& config_;
  const Logger& log_;
  const DialRanges ranges_;
  const JobShape shape_;
  Setting setting_;           // of this rank
  uint64_t batches_ = 0;      // of the world
  uint64_t changes_ = 0;      // of the setting
  uint64_t last_change_ = 0;  // the world's batches before it
  std::unique_ptr<Root> root_;
};

}  // namespace hvdlite::engine
