/*
 * Device memory: suballocation of the driver's blocks, and copies to and from it.
 *
 * All work is submitted to one queue in order, so a freed piece can be reused at once: later
 * submissions run later. Only the host must not write where submitted work still reads; such a
 * write goes through the queue.
 */
#include "backend/vulkan/host/vk_device.h"

enum { HALF_BYTES = 4 << 20 }; /* of the staging memory */

/* Up to this size, reading mapped memory directly is faster than submitting a copy and waiting,
 * even across a bus. */
enum { FEW_BYTES = VK_READBACK_BYTES };

static uint64_t aligned(uint64_t bytes) {
    return (bytes + VK_ALIGNMENT - 1) & ~(uint64_t)(VK_ALIGNMENT - 1);
}

/* ---- kinds of memory ---- */

/* The first memory type with all flags; UINT32_MAX: none. */
static uint32_t type_with(const vk_device *d, VkMemoryPropertyFlags flags) {
    for (uint32_t i = 0; i < d->memory.memoryTypeCount; i++)
        if ((d->memory.memoryTypes[i].propertyFlags & flags) == flags) return i;
    return UINT32_MAX;
}

static uint64_t heap_bytes(const vk_device *d, uint32_t type) {
    return d->memory.memoryHeaps[d->memory.memoryTypes[type].heapIndex].size;
}

/* Host-visible device memory is used only if the heap is not just a small window (BAR). */
static vk_pool choose(const vk_device *d, vk_pool_kind kind) {
    enum {
        LOCAL = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
        SEEN = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
        CACHED = VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
    };
    const uint32_t local = type_with(d, LOCAL), both = type_with(d, LOCAL | SEEN);
    const bool whole = both != UINT32_MAX && heap_bytes(d, both) >= heap_bytes(d, local);
    uint32_t type = whole ? both : local;
    if (kind == VK_POOL_UPLOAD) type = both != UINT32_MAX ? both : type_with(d, SEEN);
    if (kind == VK_POOL_READ) type = type_with(d, SEEN | CACHED);
    if (kind == VK_POOL_READ && type == UINT32_MAX) type = type_with(d, SEEN);
    const VkMemoryPropertyFlags flags = d->memory.memoryTypes[type].propertyFlags;
    return (vk_pool){.type = type,
                     .mapped = (flags & SEEN) == SEEN,
                     .fast = (flags & CACHED) != 0,
                     .block_bytes = kind == VK_POOL_DEVICE ? 64 << 20 : 1 << 20};
}

/* ---- blocks ---- */

static void block_destroy(vk_device *d, vk_block *b) {
    if (!b) return;
    const ig_host *host = d->base.host;
    if (b->buffer) d->api.DestroyBuffer(d->handle, b->buffer, NULL);
    if (b->memory) d->api.FreeMemory(d->handle, b->memory, NULL);
    for (ig_backend_buffer *p = b->pieces, *after; p; p = after) {
        after = p->after;
        host->free(host, p);
    }
    host->free(host, b);
}

/* Without buffer device addresses, a unique number that identifies the block in recordings. */
static VkDeviceAddress address_of(vk_device *d, const vk_block *b) {
    const VkBufferDeviceAddressInfo where = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                             .buffer = b->buffer};
    if (d->has.addresses) return d->api.GetBufferDeviceAddress(d->handle, &where);
    d->next_address += VK_ALIGNMENT;
    const VkDeviceAddress own = d->next_address;
    d->next_address += b->bytes;
    return own;
}

static VkResult block_allocate(vk_device *d, vk_block *b, const vk_pool *pool) {
    const VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                             .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    const VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                           .pNext = d->has.addresses ? &flags : NULL,
                                           .allocationSize = b->bytes,
                                           .memoryTypeIndex = pool->type};
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = b->bytes,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT |
                 (d->has.addresses ? VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT : 0)};
    VkMemoryRequirements needs;
    VkResult result = d->api.CreateBuffer(d->handle, &info, NULL, &b->buffer);
    if (result != VK_SUCCESS) return result;
    d->api.GetBufferMemoryRequirements(d->handle, b->buffer, &needs);
    if (needs.size > b->bytes || !(needs.memoryTypeBits >> pool->type & 1))
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    result = d->api.AllocateMemory(d->handle, &allocate, NULL, &b->memory);
    if (result == VK_SUCCESS) result = d->api.BindBufferMemory(d->handle, b->buffer, b->memory, 0);
    if (result == VK_SUCCESS && pool->mapped)
        result = d->api.MapMemory(d->handle, b->memory, 0, VK_WHOLE_SIZE, 0, (void **)&b->mapped);
    if (result == VK_SUCCESS) b->address = address_of(d, b);
    return result;
}

static void available(const vk_device *d, uint32_t type, uint64_t *total, uint64_t *left);

static ig_status block_create(vk_device *d, vk_pool *pool, uint64_t bytes) {
    const ig_host *host = d->base.host;
    vk_block *b = host->alloc(host, 1, sizeof *b);
    ig_backend_buffer *piece = host->alloc(host, 1, sizeof *piece);
    VkResult result = VK_ERROR_OUT_OF_HOST_MEMORY;
    if (bytes > heap_bytes(d, pool->type))
        result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    else if (b && piece) {
        b->bytes = bytes > pool->block_bytes ? bytes : pool->block_bytes;
        result = block_allocate(d, b, pool);
        if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY &&
            b->bytes > bytes) { /* retry with the minimum */
            if (b->buffer) d->api.DestroyBuffer(d->handle, b->buffer, NULL);
            *b = (vk_block){.bytes = bytes};
            result = block_allocate(d, b, pool);
        }
    }
    if (result != VK_SUCCESS) {
        uint64_t total, left;
        host->free(host, piece);
        block_destroy(d, b);
        available(d, pool->type, &total, &left);
        return VK_FAIL(host, result, "a buffer of %llu bytes, with %llu in use and %llu left",
                       (unsigned long long)bytes, (unsigned long long)d->allocated,
                       (unsigned long long)left);
    }
    *piece = (ig_backend_buffer){.block = b, .bytes = b->bytes, .free = true};
    b->pieces = piece;
    b->next = pool->blocks;
    pool->blocks = b;
    return IG_OK;
}

/* ---- pieces ---- */

static ig_backend_buffer *find_free(const vk_pool *pool, uint64_t bytes) {
    for (const vk_block *b = pool->blocks; b; b = b->next)
        for (ig_backend_buffer *p = b->pieces; p; p = p->after)
            if (p->free && p->bytes >= bytes) return p;
    return NULL;
}

/* Splits off the excess as a free piece. */
static ig_status cut(vk_device *d, ig_backend_buffer *p, uint64_t bytes) {
    const ig_host *host = d->base.host;
    p->free = false;
    if (p->bytes == bytes) return IG_OK;
    ig_backend_buffer *rest = host->alloc(host, 1, sizeof *rest);
    if (!rest) {
        p->free = true;
        return IG_HOST_FAIL(host, IG_ERR_MEMORY, "vulkan: a buffer of %llu bytes",
                            (unsigned long long)bytes);
    }
    *rest = (ig_backend_buffer){.block = p->block,
                                .before = p,
                                .after = p->after,
                                .offset = p->offset + bytes,
                                .bytes = p->bytes - bytes,
                                .last_use = p->last_use,
                                .free = true};
    if (rest->after) rest->after->before = rest;
    p->after = rest;
    p->bytes = bytes;
    return IG_OK;
}

ig_status vk_piece_alloc(vk_device *d, vk_pool_kind kind, uint64_t bytes, ig_backend_buffer **out) {
    vk_pool *pool = &d->pools[kind];
    if (bytes > UINT64_MAX / 2)
        return IG_HOST_FAIL(d->base.host, IG_ERR_MEMORY, "vulkan: a buffer of %llu bytes",
                            (unsigned long long)bytes);
    bytes = aligned(bytes > 0 ? bytes : 1);
    ig_backend_buffer *p = find_free(pool, bytes);
    if (!p) {
        IG_TRY(block_create(d, pool, bytes));
        p = find_free(pool, bytes);
    }
    IG_TRY(cut(d, p, bytes));
    *out = p;
    return IG_OK;
}

/* Merges `p` with the next piece if both are free. */
static void join(vk_device *d, ig_backend_buffer *p) {
    ig_backend_buffer *behind = p ? p->after : NULL;
    if (!behind || !p->free || !behind->free) return;
    p->bytes += behind->bytes;
    p->after = behind->after;
    if (p->after) p->after->before = p;
    if (p->last_use < behind->last_use) p->last_use = behind->last_use;
    d->base.host->free(d->base.host, behind);
}

/* Returns an empty block to the driver, except the last one of its pool. */
static void trim(vk_device *d, vk_pool *pool, vk_block *block) {
    const bool empty = block->pieces->free && !block->pieces->after;
    if (!empty || (pool->blocks == block && !block->next)) return;
    if (vk_wait(d, block->pieces->last_use) != IG_OK) return;
    vk_block **link = &pool->blocks;
    while (*link != block) link = &(*link)->next;
    *link = block->next;
    block_destroy(d, block);
}

void vk_piece_free(vk_device *d, ig_backend_buffer *piece) {
    if (!piece) return;
    vk_block *block = piece->block;
    vk_readback_forget(d, piece);
    d->returned++;
    piece->free = true;
    join(d, piece);
    join(d, piece->before);
    for (int kind = 0; kind < VK_POOL_COUNT; kind++)
        for (const vk_block *b = d->pools[kind].blocks; b; b = b->next)
            if (b == block) {
                trim(d, &d->pools[kind], block);
                return;
            }
}

/* ---- the functions of backend.h ---- */

ig_status vk_buffer_alloc(ig_backend_device *device, uint64_t bytes, ig_backend_buffer **out) {
    vk_device *d = (vk_device *)device;
    IG_TRY(vk_piece_alloc(d, VK_POOL_DEVICE, bytes, out));
    d->allocated += (*out)->bytes;
    if (d->peak < d->allocated) d->peak = d->allocated;
    return IG_OK;
}

void vk_buffer_free(ig_backend_device *device, ig_backend_buffer *buffer) {
    vk_device *d = (vk_device *)device;
    if (!buffer) return;
    d->allocated -= buffer->bytes;
    vk_piece_free(d, buffer);
}

static void copy(vk_device *d, VkCommandBuffer commands, const ig_backend_buffer *dst,
                 uint64_t dst_offset, const ig_backend_buffer *src, uint64_t src_offset,
                 uint64_t bytes) {
    const VkBufferCopy region = {.srcOffset = src->offset + src_offset,
                                 .dstOffset = dst->offset + dst_offset,
                                 .size = bytes};
    d->api.CmdCopyBuffer(commands, src->block->buffer, dst->block->buffer, 1, &region);
}

/* Starts recording copies through the least recently used half. */
static ig_status begin_half(vk_device *d) {
    vk_staging *s = &d->staging;
    IG_TRY(vk_wait(d, s->value[s->half ^ 1]));
    s->half ^= 1;
    return vk_commands_begin(d, s->commands[s->half]);
}

ig_status vk_uploads_take(vk_device *d, VkCommandBuffer *out) {
    vk_staging *s = &d->staging;
    *out = VK_NULL_HANDLE;
    if (s->filled == 0) return IG_OK;
    s->filled = 0;
    const VkResult result = d->api.EndCommandBuffer(s->commands[s->half]);
    if (result != VK_SUCCESS) return VK_FAIL(d->base.host, result, "recording uploads");
    s->value[s->half] = d->submitted + 1;
    *out = s->commands[s->half];
    return IG_OK;
}

/* Uploads up to HALF_BYTES with the next submission. Pending copies are unordered: a second one
 * into the same buffer submits those before it. */
static ig_status upload(vk_device *d, ig_backend_buffer *dst, uint64_t offset, const void *src,
                        uint64_t bytes) {
    vk_staging *s = &d->staging;
    if (s->filled > 0 && (s->filled + bytes > HALF_BYTES || dst->last_use > d->submitted))
        IG_TRY(vk_submit(d, VK_NULL_HANDLE, VK_NULL_HANDLE));
    if (s->filled == 0) IG_TRY(begin_half(d));
    const uint64_t at = (uint64_t)s->half * HALF_BYTES + s->filled;
    memcpy(vk_piece_mapped(s->upload) + at, src, bytes);
    copy(d, s->commands[s->half], dst, offset, s->upload, at, bytes);
    s->filled += aligned(bytes);
    dst->last_use = d->submitted + 1;
    return IG_OK;
}

ig_status vk_write(ig_backend_device *device, ig_backend_buffer *dst, uint64_t offset,
                   const void *src, uint64_t bytes) {
    vk_device *d = (vk_device *)device;
    char *mapped = vk_piece_mapped(dst);
    if (bytes == 0) return IG_OK;
    if (mapped && vk_is_done(d, dst->last_use)) {
        memcpy(mapped + offset, src, bytes);
        return IG_OK;
    }
    for (uint64_t done = 0; done < bytes; done += HALF_BYTES) {
        const uint64_t n = bytes - done < HALF_BYTES ? bytes - done : HALF_BYTES;
        IG_TRY(upload(d, dst, offset + done, (const char *)src + done, n));
    }
    return IG_OK;
}

/* Copies up to HALF_BYTES to host-visible memory. */
static ig_status download(vk_device *d, const ig_backend_buffer *src, uint64_t offset, void *dst,
                          uint64_t bytes) {
    vk_staging *s = &d->staging;
    if (s->filled > 0) IG_TRY(vk_submit(d, VK_NULL_HANDLE, VK_NULL_HANDLE));
    IG_TRY(begin_half(d));
    VkCommandBuffer commands = s->commands[s->half];
    copy(d, commands, s->read, 0, src, offset, bytes);
    IG_TRY(vk_commands_end(d, commands));
    IG_TRY(vk_submit(d, commands, VK_NULL_HANDLE));
    s->value[s->half] = d->submitted;
    IG_TRY(vk_wait(d, d->submitted));
    memcpy(dst, vk_piece_mapped(s->read), bytes);
    return IG_OK;
}

ig_status vk_read(ig_backend_device *device, const ig_backend_buffer *src, uint64_t offset,
                  void *dst, uint64_t bytes) {
    vk_device *d = (vk_device *)device;
    if (bytes == 0) return IG_OK;
    const bool soon = d->pools[VK_POOL_DEVICE].fast || bytes <= FEW_BYTES;
    if (vk_piece_mapped(src) && (soon || d->is_lost)) { /* a lost device copies nothing */
        IG_TRY(vk_wait(d, src->last_use));
        memcpy(dst, vk_piece_mapped(src) + offset, bytes);
        return IG_OK;
    }
    if (vk_readback_has(d, src, offset, bytes)) return vk_readback_get(d, dst);
    for (uint64_t done = 0; done < bytes; done += HALF_BYTES) {
        const uint64_t n = bytes - done < HALF_BYTES ? bytes - done : HALF_BYTES;
        IG_TRY(download(d, src, offset + done, (char *)dst + done, n));
    }
    return bytes <= FEW_BYTES ? vk_readback_learn(d, src, offset, bytes) : IG_OK;
}

/* Heap size and remaining budget, as the driver reports them. */
static void available(const vk_device *d, uint32_t type, uint64_t *total, uint64_t *left) {
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
        .pNext = d->has_budget ? &budget : NULL};
    const uint32_t heap = d->memory.memoryTypes[type].heapIndex;
    *total = d->memory.memoryHeaps[heap].size;
    *left = *total > d->allocated ? *total - d->allocated : 0;
    if (!d->has_budget) return;
    d->api.GetPhysicalDeviceMemoryProperties2(d->physical, &properties);
    const uint64_t most = budget.heapBudget[heap], used = budget.heapUsage[heap];
    *left = most > used ? most - used : 0;
}

void vk_memory_stats(const ig_backend_device *device, ig_memory_stats *out) {
    const vk_device *d = (const vk_device *)device;
    uint64_t total, left;
    available(d, d->pools[VK_POOL_DEVICE].type, &total, &left);
    *out = (ig_memory_stats){d->allocated, d->peak, left};
}

void vk_reset_memory_stats(ig_backend_device *device) {
    vk_device *d = (vk_device *)device;
    d->peak = d->allocated;
}

/* ---- beginning and end ---- */

ig_status vk_memory_init(vk_device *d) {
    for (int kind = 0; kind < VK_POOL_COUNT; kind++) d->pools[kind] = choose(d, kind);
    IG_TRY(vk_commands_create(d, d->staging.commands, 2));
    IG_TRY(vk_piece_alloc(d, VK_POOL_UPLOAD, 2 * HALF_BYTES, &d->staging.upload));
    IG_TRY(vk_piece_alloc(d, VK_POOL_READ, VK_READBACK_BYTES, &d->staging.readback));
    return vk_piece_alloc(d, VK_POOL_READ, HALF_BYTES, &d->staging.read);
}

void vk_memory_deinit(vk_device *d) {
    for (int kind = 0; kind < VK_POOL_COUNT; kind++)
        for (vk_block *b = d->pools[kind].blocks, *next; b; b = next) {
            next = b->next;
            block_destroy(d, b);
        }
}
