#include "datasets/needle/words.h"

#include <array>

namespace kvscope {
namespace {

constexpr auto kWords = std::to_array<std::string_view>({
    "acorn",   "anchor",  "apricot", "barley",  "basket",   "beacon",  "bottle",   "branch",
    "bridge",  "bucket",  "butter",  "button",  "cabin",    "candle",  "canyon",   "carpet",
    "castle",  "cedar",   "cellar",  "cherry",  "chimney",  "cinder",  "clover",   "cobble",
    "copper",  "cotton",  "crystal", "desert",  "donkey",   "eagle",   "engine",   "falcon",
    "feather", "fiddle",  "flannel", "forest",  "fountain", "garden",  "ginger",   "glacier",
    "granite", "hammer",  "harbor",  "hazel",   "helmet",   "heron",   "hollow",   "island",
    "ivory",   "jacket",  "jasmine", "kettle",  "ladder",   "lantern", "lemon",    "linen",
    "magnet",  "maple",   "marble",  "meadow",  "mirror",   "mitten",  "mountain", "nickel",
    "nutmeg",  "oasis",   "orchard", "otter",   "paddle",   "pebble",  "pepper",   "pigeon",
    "pillow",  "planet",  "pocket",  "prairie", "quarry",   "rabbit",  "raisin",   "ribbon",
    "river",   "rocket",  "saddle",  "salmon",  "shadow",   "silver",  "sparrow",  "spider",
    "temple",  "thimble", "thunder", "timber",  "tunnel",   "turnip",  "valley",   "velvet",
    "violet",  "walnut",  "willow",  "window",  "winter",
});

}  // namespace

std::span<const std::string_view> needle_words() { return kWords; }

}  // namespace kvscope
