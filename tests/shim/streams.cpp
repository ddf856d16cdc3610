#include "tests/shim/streams.h"

#include <mutex>
#include <set>
#include <utility>

#include "tests/shim/engine.h"
#include "tests/shim/machine.h"

namespace kvscope::shim {
namespace {

struct Streams {
  std::recursive_mutex mutex;  // work may throw, never put in more
  CUstream_st default_stream;
  std::set<CUstream_st*> made;

  CUstream_st* find(cudaStream_t stream) {
    if (stream == nullptr) return &default_stream;
    return made.count(stream) != 0 ? stream : nullptr;
  }
};
Streams& streams() {
  static Streams one;
  return one;
}

// Does what was put in until n works are done.
void advance(CUstream_st& stream, std::uint64_t n) {
  while (stream.n_done < n) {
    const std::function<void()> work = std::move(stream.work.front());
    stream.work.pop_front();
    ++stream.n_done;
    if (!device_is_lost()) work();
  }
}
void advance(CUstream_st& stream) { advance(stream, stream.n_put); }

cudaError_t finish_stream(cudaStream_t stream) {
  Streams& all = streams();
  const std::lock_guard lock(all.mutex);
  CUstream_st* known = all.find(stream);
  if (known == nullptr) return cudaErrorInvalidResourceHandle;
  if (known == &all.default_stream) {
    for (CUstream_st* other : all.made) {
      if (other->waits_for_default) advance(*other);
    }
  } else if (known->waits_for_default) {
    advance(all.default_stream);
  }
  advance(*known);
  return device_state();
}

}  // namespace

void enqueue(cudaStream_t stream, std::function<void()> work) {
  Streams& all = streams();
  const std::lock_guard lock(all.mutex);
  CUstream_st* known = all.find(stream);
  if (known == nullptr) fail("work for a stream that does not exist");
  // Order between the default stream and those that wait for it: what is there first is done first.
  if (known == &all.default_stream) {
    for (CUstream_st* other : all.made) {
      if (other->waits_for_default) advance(*other);
    }
  } else if (known->waits_for_default) {
    advance(all.default_stream);
  }
  known->work.push_back(std::move(work));
  ++known->n_put;
  if (!config().lazy_streams) advance(*known);
}

void finish(cudaStream_t stream) {
  if (finish_stream(stream) == cudaErrorInvalidResourceHandle)
    fail("waiting for a stream that does not exist");
}

void finish_all() {
  Streams& all = streams();
  const std::lock_guard lock(all.mutex);
  advance(all.default_stream);
  for (CUstream_st* stream : all.made) advance(*stream);
}

}  // namespace kvscope::shim

namespace shim = kvscope::shim;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (const cudaError_t state = shim::device_state(); state != cudaSuccess)
    return shim::note(state);
  const std::lock_guard lock(shim::streams().mutex);
  *stream = new CUstream_st;
  (*stream)->waits_for_default = (flags & cudaStreamNonBlocking) == 0;
  shim::streams().made.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (stream == nullptr) return shim::note(cudaErrorInvalidResourceHandle);
  const cudaError_t result = shim::finish_stream(stream);
  const std::lock_guard lock(shim::streams().mutex);
  if (shim::streams().made.erase(stream) != 0) delete stream;
  return shim::note(result);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return shim::note(shim::finish_stream(stream));
}
cudaError_t cudaDeviceSynchronize() {
  shim::finish_all();
  return shim::note(shim::device_state());
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const std::lock_guard lock(shim::streams().mutex);
  const CUstream_st* known = shim::streams().find(stream);
  if (known == nullptr) return shim::note(cudaErrorInvalidResourceHandle);
  return known->n_done == known->n_put ? shim::device_state() : cudaErrorNotReady;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  if (const cudaError_t state = shim::device_state(); state != cudaSuccess)
    return shim::note(state);
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(shim::streams().mutex);
  CUstream_st* known = shim::streams().find(stream);
  if (known == nullptr) return shim::note(cudaErrorInvalidResourceHandle);
  event->stream = known;
  event->after = known->n_put;
  event->time = std::chrono::steady_clock::now();
  return shim::note(shim::device_state());
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(shim::streams().mutex);
  const bool is_done = event->stream == nullptr || event->stream->n_done >= event->after;
  return is_done ? shim::device_state() : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::lock_guard lock(shim::streams().mutex);
  if (event->stream != nullptr) shim::advance(*event->stream, event->after);
  return shim::note(shim::device_state());
}

cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t event, unsigned) {
  return cudaEventSynchronize(event);  // earlier than a device would: correct programs see no odds
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (start->stream == nullptr || end->stream == nullptr)
    return shim::note(cudaErrorInvalidResourceHandle);
  if (cudaEventQuery(start) == cudaErrorNotReady || cudaEventQuery(end) == cudaErrorNotReady)
    return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return cudaSuccess;
}

}  // extern "C"
