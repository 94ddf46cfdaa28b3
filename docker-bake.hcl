# Every release in every variant. The data (RELEASES) is in docker-bake.json, which is generated.
variable "BASE_IMAGE" {
  # A local stand-in for a release's base image, e.g. dflash-kit/base:bookworm.
  default = ""
}

variable "WHEELHOUSE" {
  # A folder of wheels that is tried before any index.
  default = ""
}

variable "CA_BUNDLE" {
  # The CA bundle of a mirror behind a private authority.
  default = ""
}

variable "INDEX_ENV" {
  # A file of shell assignments for a private mirror, such as UV_DEFAULT_INDEX and PIP_INDEX_URL.
  default = ""
}

variable "CAPABILITIES" {
  # Compute capabilities of the cards that the cuda variant is for, e.g. "12.0"; empty: every card.
  default = ""
}

variable "REVISION" {
  default = ""
}

target "engine" {
  name = "engine-${replace(release.name, ".", "-")}-${variant}"
  matrix = {
    release = RELEASES
    variant = ["cpu", "cuda"]
  }
  tags = ["dflash-kit/engine:${release.name}-${variant}"]
  contexts = merge(
    BASE_IMAGE == "" ? {} : {"${release.base}" = "docker-image://${BASE_IMAGE}"},
    WHEELHOUSE == "" ? {} : {"wheelhouse" = WHEELHOUSE},
  )
  args = {
    BASE        = release.base
    VARIANT     = variant
    RELEASE     = release.name
    SGLANG      = release.sglang
    UV          = release.uv
    TORCH_INDEX = release.torch_index[variant]
    PATCHES     = release.patches
    TREE        = release.tree
    REVISION    = REVISION
    # None for CPUs: what is the same for every card is built once.
    CAPABILITIES = variant == "cuda" ? CAPABILITIES : ""
  }
  secret = concat(
    CA_BUNDLE == "" ? [] : ["type=file,id=ca,src=${CA_BUNDLE}"],
    INDEX_ENV == "" ? [] : ["type=file,id=index,src=${INDEX_ENV}"],
  )
}
